import { payload, type Known } from "../api/payload";
import type {
  BashDisplay,
  BrowserControlChanged,
  ErrorKind,
  Event,
  KillReport,
  Live,
  LLMRetryScheduled,
  SandboxStateChanged,
  TaskHostBound,
  ToolResultRecorded,
  TurnInterrupted,
  Usage,
  Where,
} from "../api/types.gen";
import { clock, count, dollars, span, tokens, took } from "../text/format";
import { oneLine, repeats } from "../text/visible";
import { Egress } from "./egress.svelte";
import { isCalledOff } from "./engine";
import { Call, type Item, type Note } from "./items.svelte";
import { LiveText } from "./output.svelte";

/** How much of a failed sandbox's cause its row shows. */
const BRIEF = 60;

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
  readonly thought = new LiveText();
  readonly egress = new Egress();
  /** allow are the entries that the proxy lets through besides public addresses. */
  allow = $state.raw<readonly string[]>([]);
  /** since is when the sandbox came into the state that it was last told to be in, and all that was said of why. */
  since = $state.raw<{ value: string; at: string; cause: string; detail: string }>({ value: "", at: "", cause: "", detail: "" });
  /** reading says that a person has opened the thought that comes. */
  reading = $state(false);

  private list: Item[] = [];
  private readonly calls = new Map<string, Call>();
  /** tasks are the timelines of all subtasks of the session, by their ids. */
  private readonly tasks: Map<string, Timeline>;
  /** asked is the end of the log when the model was asked for what is live now, answered the last answer's place in it. */
  private asked = 0;
  private answered = 0;
  /** open are the calls of this turn: those that a stop may end. */
  private readonly open = new Set<Call>();
  private turn = new Turn("");
  /** retrying is the index of the row that tells of a retry to come; -1 when there is none. */
  private retrying = -1;
  private revision = $state(0);

  /** A timeline of a subtask shares the map of all of them with that of its session. */
  constructor(tasks = new Map<string, Timeline>()) {
    this.tasks = tasks;
  }

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
    const known = payload(e);
    if (e.task_id === e.root_task_id) return this.fold(e, known);
    this.subtask(e.task_id).tell(e, known);
    // What a turn's subtasks take is what the turn takes.
    if (known.kind === "LLMRequestFinished") this.turn.add(known.body.usage, known.body.cost_usd);
  }

  private tell(e: Event, known: Known): void {
    this.seq = e.seq;
    this.fold(e, known);
  }

  private subtask(id: string): Timeline {
    let t = this.tasks.get(id);
    if (!t) this.tasks.set(id, (t = new Timeline(this.tasks)));
    return t;
  }

  /** holder returns the id of the item that a call is, or is within. */
  holder(callID: string): string {
    const isIn = (call: Call): boolean =>
      call.id === callID || (call.subtask?.timeline.items.some((i) => i.kind === "call" && isIn(i)) ?? false);
    return this.list.find((i) => i.kind === "call" && isIn(i))?.id ?? callID;
  }

  applyLive(f: Live): void {
    if (f.task_id !== f.session_id) return this.tasks.get(f.task_id)?.showLive(f);
    this.showLive(f);
  }

  private showLive(f: Live): void {
    if (f.kind === "text" || f.kind === "thinking") {
      if (f.after < this.answered) return; // the log is ahead of it, and has what was said
      this.asked = f.after;
      (f.kind === "text" ? this.answer : this.thought).add(f);
    } else {
      const call = this.calls.get(f.call_id);
      if (call && !call.over) call.output.add(f);
    }
  }

  private fold(e: Event, { kind, body }: Known): void {
    switch (kind) {
      case "TaskCreated":
        this.allow = body.spec?.network?.allow ?? [];
        return;
      case "EgressDecided":
        return this.egress.apply(e.seq, e.at, body);
      case "TaskHostBound":
        return this.note(e, "link", "plain", boundText(body), body.workspace_dir);
      case "SandboxStateChanged":
        return this.sandbox(e, body);
      case "BrowserControlChanged":
        return this.controlled(e, body);
      case "MessagesAppended":
        return this.messages(e, body.messages ?? [], body.notice);
      case "TaskWoken":
        if (body.cause === "message") this.turn = new Turn(e.at);
        return;
      case "LLMRequestStarted":
        this.retried(true);
        this.unsay(e);
        this.thinking = true;
        return;
      case "LLMRequestFinished":
        this.thinking = false;
        this.answered = e.seq;
        this.turn.add(body.usage, body.cost_usd);
        this.retried(true);
        if (body.error) {
          this.unsay(e);
          this.note(e, "error", "bad", `${body.model} gave no answer`, body.error);
        }
        return;
      case "LLMRetryScheduled":
        return this.retry(e, body);
      case "ToolCallStarted":
        return this.call(body.call_id).learn({
          tool: body.tool, input: body.input, actor: body.actor, where: placed(body.where), startedAt: e.at, state: "running",
        });
      case "ToolResultRecorded":
        return this.result(body);
      case "ToolCallDenied":
        return this.call(body.call_id).learn({ state: "denied", reason: body.reason });
      case "ToolCallApprovalRequested":
        return this.call(body.call_id).learn({ tool: body.tool, input: body.input, reason: body.reason, state: "waiting" });
      case "ToolCallApprovalResolved": {
        const call = this.call(body.call_id);
        call.learn({ decided: body.allow ? "allowed" : "denied", reason: body.reason });
        if (!call.over) call.learn({ state: body.allow ? "queued" : "denied" });
        return;
      }
      case "UserQuestionRequested":
        return this.call(body.call_id).learn({ tool: body.tool, question: body.question, state: "waiting" });
      case "UserQuestionAnswered": {
        const call = this.call(body.call_id);
        if (call.answer) return; // the first counts
        return call.learn({ answer: { text: body.text, declined: body.declined }, state: body.declined ? "denied" : "ok" });
      }
      case "SubtaskSpawned":
        return this.call(body.call_id).learn({
          subtask: { agent: body.agent, description: body.description, timeline: this.subtask(body.task_id) },
        });
      case "StepAttemptAbandoned":
        return this.note(e, "info", "warn", "The server restarted during this turn", body.detail);
      case "TurnInterrupted":
        return this.interrupted(e, body);
      case "TaskSuspended":
        this.settle(e);
        if (body.reason === "turn_failed") this.turnFailed(e, body.detail);
        if (body.reason === "no_sandbox" && !this.isSandboxTold(body.detail)) this.note(e, "error", "bad", "There is no sandbox", body.detail);
        if (body.wake_on === "next-goal") this.ended(e);
        return;
      case "TaskCompleted":
        this.settle(e);
        this.ended(e);
        return this.note(e, "done", "good", "Completed", "");
      case "TaskFailed":
        this.settle(e);
        this.ended(e);
        return this.note(e, "error", "bad", "Failed", body.error);
      case "TaskCancelled":
        this.settle(e);
        return this.note(e, "stop", "plain", "Session closed", body.reason);
    }
  }

  private result(body: ToolResultRecorded): void {
    const call = this.call(body.call_id);
    call.learn({
      tool: body.tool,
      state: body.status,
      text: body.text,
      images: body.images ?? [],
      display: body.display,
      where: placed(body.where) ?? call.where,
      made: !body.not_made,
      took: body.duration,
    });
    const total = body.display as Partial<BashDisplay> | null;
    if (!call.output.whole(total?.stdout_total ?? 0, total?.stderr_total ?? 0)) call.output.clear();
  }

  /** retry takes off what a failed attempt had said, and tells when the next one is. The attempts of one request share a row. */
  private retry(e: Event, r: LLMRetryScheduled): void {
    this.unsay(e);
    this.thinking = false;
    const text = `${retryCauses[r.kind] ?? "The request to the model failed"}: attempt ${r.attempt + 1} of ${r.attempts}`;
    const last = this.list.at(-1);
    const id = last?.kind === "note" && last.icon === "retry" ? last.id : `n${e.seq}`;
    const note: Note = { kind: "note", id, icon: "retry", tone: "warn", text, detail: r.detail, at: e.at, until: r.at };
    if (last?.id === id) this.replace(this.list.length - 1, note);
    else this.push(note);
    this.retrying = this.list.length - 1;
  }

  /** retried turns the row of a retry into the past, once the model was asked again or will not be. */
  private retried(asked: boolean): void {
    const note = this.list[this.retrying];
    if (note?.kind === "note" && note.until) {
      this.replace(this.retrying, { ...note, tone: "plain", until: undefined, text: asked ? note.text : `${note.text} was not made` });
    }
    this.retrying = -1;
  }

  /** ended tells what a turn took, where that is known. */
  private ended(e: Event): void {
    const text = this.turn.text(e.at);
    if (text) this.note(e, "sum", "plain", text, "");
    this.turn = new Turn(e.at);
  }

  /** settle ends what only lives while a turn runs. */
  private settle(e: Event): void {
    this.retried(false);
    this.thinking = false;
    this.unsay(e);
  }

  /** unsay takes off what the log has not, or has by now, but for what is said to a later request. */
  private unsay(e: Event): void {
    if (this.asked >= e.seq) return;
    this.answer.clear();
    this.thought.clear();
    this.reading = false;
  }

  private messages(e: Event, messages: NonNullable<MessagesBody>, notice: boolean): void {
    messages.forEach((m, i) => {
      const from = notice ? "host" : m.role;
      const open = this.reading;
      if (m.role === "assistant") this.unsay(e);
      let text = "";
      let said = 0;
      const say = (): void => {
        // What stands between thoughts has an address of its own; nearly all there is has the first one.
        if (text.trim()) this.push({ kind: "message", id: `m${e.seq}.${i}${said++ ? `.${said}` : ""}`, from, text, at: e.at });
        text = "";
      };
      (m.blocks ?? []).forEach((b, k) => {
        if (!b.thinking) text += b.text ?? "";
        else {
          say();
          this.push({ kind: "thought", id: `t${e.seq}.${i}.${k}`, text: b.thinking.text ?? "", took: b.thinking.took ?? 0, open });
        }
      });
      say();
      for (const b of m.blocks ?? []) {
        if (!b.use) continue;
        this.call(b.use.id).learn({ tool: b.use.name, input: b.use.input });
      }
    });
  }

  private sandbox(e: Event, { condition, detail }: SandboxStateChanged): void {
    const at = this.since.value === condition.value ? this.since.at : e.at;
    this.since = { value: condition.value, at, cause: condition.cause, detail };
    if (isCalledOff(condition)) return this.note(e, "sandbox", "plain", `Sandbox ${condition.cause}`, "");
    if (condition.value === "failed") {
      // A banner or the card shows it whole while it is so.
      const whole = detail || condition.cause;
      const brief = oneLine(whole, BRIEF);
      return this.note(e, "sandbox", "bad", whole ? `Sandbox failed: ${brief}` : "Sandbox failed", "", brief === whole ? undefined : whole);
    }
    const text = condition.cause ? `Sandbox ${condition.value}: ${condition.cause}` : `Sandbox ${condition.value}`;
    const tone = sandboxTone(condition.value);
    const last = this.list.at(-1);
    // The steps of an allocation follow each other in one row.
    if (condition.value === "allocating" && last?.kind === "note" && last.text === text) {
      return this.replace(this.list.length - 1, { ...last, detail, at: e.at });
    }
    this.note(e, "sandbox", tone, text, detail);
  }

  /** controlled tells who has the browser. What a person adds to their time is told in the row of their taking it. */
  private controlled(e: Event, c: BrowserControlChanged): void {
    const last = this.list.at(-1);
    if (c.cause === "extended" && last?.kind === "note" && last.icon === "hand" && last.tone === "warn") {
      return this.replace(this.list.length - 1, { ...last, detail: `extended, ${heldFor(c, e.at)} from ${clock(e.at)}` });
    }
    this.note(e, "hand", c.cause === "taken" || c.cause === "extended" ? "warn" : "plain", controlText(c, e.at), "");
  }

  /** turnFailed tells why a turn failed; what the row of a failed sandbox says is not said twice. */
  private turnFailed(e: Event, detail: string): void {
    if (this.isSandboxTold(detail)) return this.note(e, "error", "bad", "The turn failed with its sandbox", "");
    this.note(e, "error", "bad", "The turn failed", detail);
  }

  /** isSandboxTold reports whether the row of a failed sandbox says the same. */
  private isSandboxTold(detail: string): boolean {
    return this.since.value === "failed" && repeats(detail, this.since.cause);
  }

  private interrupted(e: Event, body: TurnInterrupted): void {
    this.settle(e);
    for (const call of this.open) {
      if (call.state === "queued" || call.state === "running") call.learn({ state: "interrupted" });
    }
    this.open.clear();
    // Without a kill nothing is proven, and an event of before counts no unknown calls.
    const isProven = body.left > 0 || (body.kills ?? []).length > 0;
    const unknown = body.unknown ?? 0;
    const parts: string[] = [];
    if (isProven) parts.push(`${count(body.left, "process", "processes")} left, ${took(body.took)}`);
    if (unknown > 0) parts.push(`${count(unknown, "call", "calls")} may still run`);
    const text = parts.join(" · ");
    const isClean = body.left === 0 && unknown === 0;
    if (text !== "") this.proof = { text, clean: isClean, at: e.at };
    const cause = body.cause === "shutdown" ? "Interrupted: the server shut down" : "Stopped";
    const tone = !isClean ? "bad" : isProven ? "good" : "plain";
    this.note(e, "stop", tone, text === "" ? cause : `${cause} · ${text}`, killedText(body.kills ?? []));
  }

  private call(id: string): Call {
    const known = this.calls.get(id);
    if (known) return known;
    const call = new Call(id);
    this.calls.set(id, call);
    this.open.add(call);
    this.push(call);
    return call;
  }

  private note(e: Event, icon: Note["icon"], tone: Note["tone"], text: string, detail: string, whole?: string): void {
    this.push({ kind: "note", id: `n${e.seq}`, icon, tone, text, detail, whole, at: e.at });
  }

  private replace(at: number, item: Item): void {
    this.list[at] = item;
    this.revision++;
  }

  private push(item: Item): void {
    this.list.push(item);
    this.revision++;
  }
}

/** Turn adds up what the requests of one turn took. */
class Turn {
  private read = 0;
  private written = 0;
  private cost: number | null = 0;

  constructor(private readonly begun: string) {}

  add(u: Usage, cost: number | null): void {
    this.read += (u.input ?? 0) + (u.cache_read ?? 0) + (u.cache_write ?? 0);
    this.written += u.output ?? 0;
    // One price that is not known makes the sum unknown.
    this.cost = this.cost === null || cost === null ? null : this.cost + cost;
  }

  text(at: string): string {
    if (this.read + this.written === 0) return "";
    const parts = [`${tokens(this.read)} tokens read`, `${tokens(this.written)} written`];
    if (this.cost !== null) parts.push(dollars(this.cost));
    const ms = Date.parse(at) - Date.parse(this.begun);
    if (ms >= 0) parts.push(span(ms));
    return parts.join(" · ");
  }
}

const retryCauses: Partial<Record<ErrorKind, string>> = {
  overloaded: "The model is overloaded",
  rate_limited: "The model limits how often it is asked",
  server_error: "The model's server had an error",
  network: "The model was not reached",
  malformed: "The model's answer was broken",
};

type MessagesBody = Extract<Known, { kind: "MessagesAppended" }>["body"]["messages"];

/** placed returns where a call ran; what is none of the sandbox's calls ran nowhere. */
function placed(w: Where | null): Where | null {
  return w?.wall ? w : null;
}

function boundText(b: TaskHostBound): string {
  if (b.wall === "local") return "Runs on the host: no wall";
  const verb = b.reprovision ? "Bound to a new sandbox" : "Bound to sandbox";
  const parts = [`${verb} ${b.sandbox_id}`, b.image, b.network ? `network ${b.network}` : ""];
  return `${parts.filter(Boolean).join(" · ")} (${b.wall})`;
}

/** heldFor says how long a person has from a moment. */
function heldFor(c: BrowserControlChanged, at: string): string {
  const ms = Date.parse(c.until ?? "") - Date.parse(at);
  return ms > 0 ? span(Math.round(ms / 1000) * 1000) : "a moment";
}

/** controlText speaks of a person: it is read in other windows too than the one that took control. */
function controlText(c: BrowserControlChanged, at: string): string {
  switch (c.cause) {
    case "taken":
      return `A person took control of the browser for ${heldFor(c, at)}`;
    case "extended":
      return `A person keeps control of the browser for ${heldFor(c, at)}`;
    case "expired":
      return "The time was over: control of the browser went back to the agent";
    case "left":
      return "The window that had control went away: control of the browser went back to the agent";
    case "ended":
      return "The browser ended, and a person's control with it";
    default:
      return "Control of the browser went back to the agent";
  }
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
