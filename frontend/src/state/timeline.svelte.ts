import { payload, type Known } from "../api/payload";
import type { Event, KillReport, Live, SandboxStateChanged, TaskHostBound, TurnInterrupted } from "../api/types.gen";
import { count, took } from "../text/format";
import { Call, type Item, type Note } from "./items.svelte";
import { LiveText } from "./output.svelte";

/** Proof is what the last interrupt proved. */
export interface Proof {
  text: string;
  clean: boolean;
  at: string;
}

/**
 * Timeline is the fold of one session's events to what its page shows. Live
 * frames only fill what a durable event will replace.
 */
export class Timeline {
  /** seq of the last event that was folded. */
  seq = 0;
  /** caughtUp says that all that had happened before the subscription is here. */
  caughtUp = $state(false);
  proof = $state.raw<Proof | null>(null);
  thinking = $state(false);
  readonly answer = new LiveText();

  private list: Item[] = [];
  private readonly calls = new Map<string, Call>();
  private revision = $state(0);

  /** items returns all items; the array is replaced by nothing and grows at its end. */
  get items(): readonly Item[] {
    void this.revision;
    return this.list;
  }

  get length(): number {
    void this.revision;
    return this.list.length;
  }

  apply(e: Event): void {
    if (e.seq <= this.seq) return;
    this.seq = e.seq;
    this.fold(e, payload(e));
  }

  applyLive(f: Live): void {
    if (f.kind === "text") this.answer.add(f);
    else {
      const call = this.calls.get(f.call_id);
      if (call && !call.over) call.output.add(f);
    }
  }

  private fold(e: Event, { kind, body }: Known): void {
    switch (kind) {
      case "TaskHostBound":
        return this.note(e, "link", "plain", boundText(body), body.workspace_dir);
      case "SandboxStateChanged":
        return this.sandbox(e, body);
      case "MessagesAppended":
        return this.messages(e, body.messages ?? [], body.notice);
      case "LLMRequestStarted":
        this.answer.clear();
        this.thinking = true;
        return;
      case "LLMRequestFinished":
        this.thinking = false;
        if (body.error) this.note(e, "error", "bad", `${body.model} gave no answer`, body.error);
        return;
      case "ToolCallStarted": {
        const call = this.call(body.call_id);
        call.tool = body.tool;
        call.input = body.input;
        call.actor = body.actor;
        call.where = body.where;
        call.startedAt = e.at;
        call.state = "running";
        return;
      }
      case "ToolResultRecorded": {
        const call = this.call(body.call_id);
        call.tool = body.tool;
        call.state = body.status;
        call.text = body.text;
        call.display = body.display;
        call.where = body.where ?? call.where;
        call.took = body.duration;
        return;
      }
      case "ToolCallDenied": {
        const call = this.call(body.call_id);
        call.state = "denied";
        call.reason = body.reason;
        return;
      }
      case "ToolCallApprovalRequested": {
        const call = this.call(body.call_id);
        call.tool = body.tool;
        call.input = body.input;
        call.reason = body.reason;
        call.state = "waiting";
        return;
      }
      case "ToolCallApprovalResolved": {
        const call = this.call(body.call_id);
        call.decided = body.allow ? "allowed" : "denied";
        call.reason = body.reason;
        if (!call.over) call.state = body.allow ? "queued" : "denied";
        return;
      }
      case "StepAttemptAbandoned":
        return this.note(e, "info", "warn", "The server restarted during this turn", body.detail);
      case "TurnInterrupted":
        return this.interrupted(e, body);
      case "TaskSuspended":
        this.settle();
        if (body.reason === "turn_failed") this.note(e, "error", "bad", "The turn failed", body.detail);
        return;
      case "TaskCompleted":
        this.settle();
        return this.note(e, "done", "good", "Completed", "");
      case "TaskFailed":
        this.settle();
        return this.note(e, "error", "bad", "Failed", body.error);
      case "TaskCancelled":
        this.settle();
        return this.note(e, "stop", "plain", "Session closed", body.reason);
      case "TaskCreated":
      case "TaskWoken":
      case "LeaseGranted":
      case "ToolCallFinished":
        return;
    }
  }

  /** settle ends what only lives while a turn runs. */
  private settle(): void {
    this.thinking = false;
    this.answer.clear();
  }

  private messages(e: Event, messages: NonNullable<MessagesBody>, notice: boolean): void {
    messages.forEach((m, i) => {
      const text = (m.blocks ?? []).map((b) => b.text ?? "").join("");
      if (m.role === "assistant") this.answer.clear();
      if (text.trim()) {
        const from = notice ? "host" : m.role;
        this.push({ kind: "message", id: `m${e.seq}.${i}`, from, text, at: e.at });
      }
      for (const b of m.blocks ?? []) {
        if (!b.use) continue;
        const call = this.call(b.use.id);
        call.tool = b.use.name;
        call.input = b.use.input;
      }
    });
  }

  private sandbox(e: Event, { condition, detail }: SandboxStateChanged): void {
    const text = condition.cause ? `Sandbox ${condition.value}: ${condition.cause}` : `Sandbox ${condition.value}`;
    const tone = sandboxTone(condition.value);
    const last = this.list.at(-1);
    // The steps of an allocation follow each other in one row.
    if (condition.value === "allocating" && last?.kind === "note" && last.text === text) {
      this.list[this.list.length - 1] = { ...last, detail, at: e.at };
      this.revision++;
      return;
    }
    this.note(e, "sandbox", tone, text, detail);
  }

  private interrupted(e: Event, body: TurnInterrupted): void {
    this.settle();
    for (const call of this.calls.values()) {
      if (call.state === "queued" || call.state === "running") call.state = "interrupted";
    }
    const text = `${count(body.left, "process", "processes")} left, ${took(body.took)}`;
    this.proof = { text, clean: body.left === 0, at: e.at };
    const cause = body.cause === "shutdown" ? "Interrupted: the server shut down" : "Stopped";
    this.note(e, "stop", body.left === 0 ? "good" : "bad", `${cause} · ${text}`, killedText(body.kills ?? []));
  }

  private call(id: string): Call {
    const known = this.calls.get(id);
    if (known) return known;
    const call = new Call(id);
    this.calls.set(id, call);
    this.push(call);
    return call;
  }

  private note(e: Event, icon: Note["icon"], tone: Note["tone"], text: string, detail: string): void {
    this.push({ kind: "note", id: `n${e.seq}`, icon, tone, text, detail, at: e.at });
  }

  private push(item: Item): void {
    this.list.push(item);
    this.revision++;
  }
}

type MessagesBody = Extract<Known, { kind: "MessagesAppended" }>["body"]["messages"];

function boundText(b: TaskHostBound): string {
  if (b.wall === "local") return "Runs on the host: no wall";
  const verb = b.reprovision ? "Bound to a new sandbox" : "Bound to sandbox";
  const parts = [`${verb} ${b.sandbox_id}`, b.image, b.network ? `network ${b.network}` : ""];
  return `${parts.filter(Boolean).join(" · ")} (${b.wall})`;
}

function sandboxTone(value: SandboxStateChanged["condition"]["value"]): Note["tone"] {
  switch (value) {
    case "ready":
      return "good";
    case "lost":
    case "failed":
      return "bad";
    case "stopped":
    case "paused":
    case "unreachable":
      return "warn";
    default:
      return "plain";
  }
}

function killedText(kills: KillReport[]): string {
  const killed = kills.flatMap((k) => k.killed ?? []);
  if (killed.length === 0) return "";
  const names = killed.slice(0, 8).map((p) => `${p.name} ${p.pid}`);
  if (killed.length > names.length) names.push(`${killed.length - names.length} more`);
  return `killed ${names.join(", ")}`;
}
