import { describe, expect, it } from "vitest";
import type { Event, Live, Payloads, ToolResultRecorded, Where } from "../api/types.gen";
import type { Call } from "./items.svelte";
import { Timeline } from "./timeline.svelte";

const where: Where = { wall: "docker", sandbox_id: "3f2a", workdir: "/workspace", boot: "b1" };

class Story {
  readonly timeline = new Timeline();
  private seq = 0;

  tell<K extends keyof Payloads>(kind: K, body: Payloads[K], task = "t"): Event {
    const e: Event = { seq: ++this.seq, task_id: task, root_task_id: "t", kind, at: "2026-01-02T03:04:05Z", generation: 1, body };
    this.timeline.apply(e);
    return e;
  }
  says(role: "user" | "assistant", text: string, use?: { id: string; name: string; input: unknown }): void {
    const blocks = [{ text }, ...(use ? [{ use }] : [])];
    this.tell("MessagesAppended", { messages: [{ role, blocks }], usage: { input: 0, output: 0, cache_read: 0, cache_write: 0 }, notice: false });
  }
  result(id: string, over: Partial<ToolResultRecorded> = {}): void {
    this.tell("ToolResultRecorded", {
      call_id: id, tool: "Bash", status: "ok", text: "done", images: null, display: null, files: null, where, not_made: false, duration: 5e6, ...over,
    });
  }
  live(f: Partial<Live>): void {
    this.timeline.applyLive({
      session_id: "t", task_id: "t", kind: "output", call_id: "c1", stream: "stdout", offset: 0,
      end: (f.offset ?? 0) + new TextEncoder().encode(f.data ?? "").length, after: this.timeline.seq, data: "", ...f,
    });
  }
  call(id: string): Call {
    const found = this.timeline.items.find((i) => i.kind === "call" && i.id === id);
    if (found?.kind !== "call") throw new Error(`no call ${id}`);
    return found;
  }
  shown(): string[] {
    return this.timeline.items.map((i) => (i.kind === "call" ? `${i.tool} ${i.state}` : i.text));
  }
}

function running(): Story {
  const s = new Story();
  s.says("assistant", "I look.", { id: "c1", name: "Bash", input: { command: "ls" } });
  s.tell("ToolCallStarted", { call_id: "c1", tool: "Bash", input: { command: "ls" }, actor: "agent", where });
  return s;
}

/** handed is a story whose first call has handed its work to a subtask, which makes a call. */
function handed(): Story {
  const s = new Story();
  s.says("assistant", "I hand it on.", { id: "c1", name: "Task", input: { description: "count" } });
  s.tell("ToolCallStarted", { call_id: "c1", tool: "Task", input: {}, actor: "agent", where: { wall: "", sandbox_id: "", workdir: "", boot: "" } });
  s.tell("SubtaskSpawned", { call_id: "c1", task_id: "t1", agent: "explore", description: "count" });
  s.tell("ToolCallStarted", { call_id: "c2", tool: "Bash", input: {}, actor: "agent", where }, "t1");
  return s;
}

describe("Timeline with subtasks", () => {
  it("keeps what a subtask does in the call that handed it over", () => {
    const s = handed();
    expect(s.shown()).toEqual(["I hand it on.", "Task running"]);
    expect(s.call("c1").where).toBeNull();
    const sub = s.call("c1").subtask;
    expect(sub).toMatchObject({ agent: "explore", description: "count" });
    expect(sub?.timeline.items.map((i) => i.kind === "call" && `${i.tool} ${i.state}`)).toEqual(["Bash running"]);
    s.live({ task_id: "t1", call_id: "c2", data: "one" });
    s.live({ task_id: "t1", kind: "text", call_id: "", data: "to itself" });
    const call = sub?.timeline.items[0];
    expect(call?.kind === "call" && call.output.pieces.map((p) => p.text)).toEqual(["one"]);
    expect(s.timeline.answer.text).toBe("");
    s.tell("TaskSuspended", { reason: "interrupted", wake_on: "next-goal", detail: "" }, "t1");
    s.tell("TaskCancelled", { reason: "stopped" }, "t1");
    expect(s.shown()).toEqual(["I hand it on.", "Task running"]);
  });

  it("says that a call deep within waits for a person, and finds it", () => {
    const s = handed();
    s.tell("SubtaskSpawned", { call_id: "c2", task_id: "t2", agent: "plan", description: "deeper" }, "t1");
    expect(s.call("c1").asks).toBe(false);
    s.tell("ToolCallApprovalRequested", { call_id: "c3", tool: "Bash", input: {}, reason: "" }, "t2");
    expect(s.call("c1").asks).toBe(true);
    expect(s.timeline.holder("c3")).toBe("c1");
    expect(s.timeline.holder("c9")).toBe("c9");
    s.tell("ToolCallApprovalResolved", { call_id: "c3", allow: true, reason: "" }, "t2");
    expect(s.call("c1").asks).toBe(false);
  });

  it("counts what subtasks use to their turn", () => {
    const s = new Story();
    s.tell("TaskWoken", { cause: "message" });
    const usage = { input: 1000, output: 0, cache_read: 0, cache_write: 0 };
    s.tell("LLMRequestFinished", { model: "m", usage, cost_usd: null, duration: 1, error: "" });
    s.tell("LLMRequestFinished", { model: "m", usage, cost_usd: null, duration: 1, error: "" }, "t1");
    s.tell("TaskSuspended", { reason: "waiting_human", wake_on: "next-goal", detail: "" });
    expect(s.shown().at(-1)).toContain("2.0k tokens read");
  });
});

describe("Timeline", () => {
  it("shows a call once, from the wish to its result", () => {
    const s = new Story();
    s.says("user", "go");
    s.says("assistant", "I look.", { id: "c1", name: "Bash", input: { command: "ls" } });
    expect(s.shown()).toEqual(["go", "I look.", "Bash queued"]);
    s.tell("ToolCallStarted", { call_id: "c1", tool: "Bash", input: { command: "ls" }, actor: "agent", where });
    expect(s.shown()).toEqual(["go", "I look.", "Bash running"]);
    s.result("c1");
    expect(s.shown()).toEqual(["go", "I look.", "Bash ok"]);
    expect(s.call("c1")).toMatchObject({ took: 5e6, text: "done", where });
  });

  it("skips an event that it has folded", () => {
    const s = new Story();
    const e = s.tell("TaskCompleted", { text: "" });
    s.timeline.apply(e);
    expect(s.shown()).toEqual(["Completed"]);
  });

  it("skips an event of a kind that it does not know", () => {
    const s = new Story();
    s.timeline.apply({ seq: 9, task_id: "t", root_task_id: "t", kind: "FromTheFuture" as Event["kind"], at: "", generation: 0, body: {} });
    expect(s.shown()).toEqual([]);
    expect(s.timeline.seq).toBe(9);
  });

  it("tells who has the browser, one row for one taking and what was added to it", () => {
    const s = new Story();
    const until = (sec: number): string => new Date(Date.parse("2026-01-02T03:04:05Z") + sec * 1000).toISOString();
    s.tell("BrowserControlChanged", { viewer: "person", until: until(300), cause: "taken" });
    s.tell("BrowserControlChanged", { viewer: "person", until: until(600), cause: "extended" });
    s.tell("BrowserControlChanged", { viewer: "person", until: until(0), cause: "given_back" });
    expect(s.shown()).toEqual(["A person took control of the browser for 5 min", "Control of the browser went back to the agent"]);
    expect(s.timeline.items[0]).toMatchObject({ icon: "hand", tone: "warn", detail: expect.stringMatching(/^extended, 10 min from/) as unknown });
    s.tell("BrowserControlChanged", { viewer: "person", until: until(0), cause: "expired" });
    expect(s.shown().at(-1)).toBe("The time was over: control of the browser went back to the agent");
    s.tell("BrowserControlChanged", { viewer: "person", cause: "ended" });
    expect(s.shown().at(-1)).toBe("The browser ended, and a person's control with it");
  });

  it("replaces the live answer by the durable message", () => {
    const s = new Story();
    s.tell("LLMRequestStarted", { model: "demo" });
    expect(s.timeline.thinking).toBe(true);
    s.live({ kind: "text", call_id: "", data: "Hel" });
    s.live({ kind: "text", call_id: "", offset: 3, data: "lo" });
    expect(s.timeline.answer.text).toBe("Hello");
    s.says("assistant", "Hello.");
    expect(s.timeline.answer.text).toBe("");
    expect(s.shown()).toEqual(["Hello."]);
  });

  it("leaves out a piece that comes after the log has the whole answer, and keeps one that comes before its request", () => {
    const s = new Story();
    s.tell("LLMRequestStarted", { model: "m" });
    const after = s.timeline.seq;
    s.live({ kind: "text", data: "Hel" });
    s.tell("LLMRequestFinished", { model: "m", usage: { input: 0, output: 0, cache_read: 0, cache_write: 0 }, cost_usd: null, duration: 0, error: "" });
    s.live({ kind: "text", offset: 3, data: "lo.", after });
    expect(s.timeline.answer.text).toBe("Hel");
    s.live({ kind: "text", data: "Next", after: after + 3 });
    s.says("assistant", "Hello.");
    s.live({ kind: "text", offset: 3, data: "lo.", after });
    s.live({ kind: "thinking", data: "hm", after });
    s.tell("LLMRequestStarted", { model: "m" });
    expect(s.shown()).toEqual(["Hello."]);
    expect(s.timeline.answer.text).toBe("Next");
    expect(s.timeline.thought.text).toBe("");
  });

  it("starts the live answer again at offset 0, and marks a piece that is missing", () => {
    const s = new Story();
    s.live({ kind: "text", data: "old" });
    s.live({ kind: "text", data: "new" });
    s.live({ kind: "text", offset: 10, data: "tail" });
    expect(s.timeline.answer.text).toBe("new…tail");
  });

  it("shows what is thought while it comes, then in its place among what is said", () => {
    const s = new Story();
    s.tell("LLMRequestStarted", { model: "m" });
    s.live({ kind: "thinking", call_id: "", data: "h" });
    s.live({ kind: "thinking", call_id: "", offset: 1, end: 2, data: "m" });
    s.live({ kind: "text", call_id: "", data: "Yes" });
    expect(s.timeline.thought.text).toBe("hm");
    expect(s.timeline.answer.text).toBe("Yes");
    s.timeline.reading = true;
    s.tell("MessagesAppended", {
      messages: [{
        role: "assistant",
        blocks: [
          { thinking: { text: "hm", signature: "s", took: 12e9 } },
          { text: "Yes" },
          { text: ", it is." },
          { thinking: { redacted: "x" } },
          { text: "I look." },
          { use: { id: "c1", name: "Bash", input: {} } },
        ],
      }],
      usage: used,
      notice: false,
    });
    expect(s.timeline.thought.text).toBe("");
    expect(s.timeline.reading).toBe(false);
    expect(s.timeline.items).toMatchObject([
      { kind: "thought", text: "hm", took: 12e9, open: true },
      { kind: "message", text: "Yes, it is.", id: "m2.0" },
      { kind: "thought", text: "", took: 0 },
      { kind: "message", text: "I look.", id: "m2.0.2" },
      { kind: "call", id: "c1" },
    ]);
    expect(new Set(s.timeline.items.map((i) => i.id)).size).toBe(5);
  });

  it("takes off what was thought when the request failed", () => {
    const s = new Story();
    s.live({ kind: "thinking", call_id: "", data: "hm" });
    s.tell("LLMRetryScheduled", failed);
    expect(s.timeline.thought.text).toBe("");
  });

  it("shows a question until its first answer, and what a stop made of it", () => {
    const s = new Story();
    const question = { kind: "question", text: "Which colour?", options: ["red", "blue"] };
    s.says("assistant", "I ask.", { id: "c1", name: "AskUser", input: { question: "Which colour?" } });
    s.tell("UserQuestionRequested", { call_id: "c1", tool: "AskUser", question });
    s.tell("TaskSuspended", { reason: "waiting_human", wake_on: "question-c1", detail: "" });
    expect(s.call("c1").state).toBe("waiting");
    expect(s.call("c1").question).toEqual(question);
    s.tell("UserQuestionAnswered", { call_id: "c1", text: "blue", declined: false });
    s.tell("UserQuestionAnswered", { call_id: "c1", text: "red", declined: true });
    expect(s.call("c1").answer).toEqual({ text: "blue", declined: false });
    s.result("c1", { tool: "AskUser", text: "Answered: blue" });
    expect(s.shown()).toEqual(["I ask.", "AskUser ok"]);
    s.tell("UserQuestionRequested", { call_id: "c2", tool: "AskUser", question });
    s.result("c2", { tool: "AskUser", status: "interrupted" });
    expect(s.call("c2").state).toBe("interrupted");
    expect(s.call("c2").answer).toBeNull();
  });

  it("parks a call until it is allowed", () => {
    const s = new Story();
    s.tell("ToolCallApprovalRequested", { call_id: "c1", tool: "Bash", input: {}, reason: "runs a command" });
    expect(s.call("c1")).toMatchObject({ state: "waiting", reason: "runs a command" });
    s.tell("ToolCallApprovalResolved", { call_id: "c1", allow: true, reason: "" });
    expect(s.call("c1")).toMatchObject({ state: "queued", decided: "allowed" });
  });

  it("keeps the reason of a denial", () => {
    const s = new Story();
    s.tell("ToolCallApprovalRequested", { call_id: "c1", tool: "Bash", input: {}, reason: "" });
    s.tell("ToolCallApprovalResolved", { call_id: "c1", allow: false, reason: "not now" });
    s.tell("ToolCallDenied", { call_id: "c1", reason: "not now" });
    expect(s.call("c1")).toMatchObject({ state: "denied", reason: "not now", decided: "denied" });
  });

  it("tells a call that was made from one that was denied or refused", () => {
    const ended = (over: Partial<ToolResultRecorded>): boolean => {
      const s = running();
      s.result("c1", over);
      return s.call("c1").made;
    };
    expect(ended({ status: "denied", not_made: true })).toBe(false);
    expect(ended({ status: "error", not_made: true, text: "Invalid input: command: must be a string." })).toBe(false);
    expect(ended({ tool: "browser_click", status: "lost", not_made: true })).toBe(false);
    expect(ended({ status: "error", display: { exit_code: 1 } })).toBe(true);
    expect(ended({ status: "lost" })).toBe(true); // it may have been
  });

  it("shows the proof of a stop", () => {
    const s = running();
    s.tell("TurnInterrupted", {
      cause: "stop", left: 0, unknown: 0, took: 38e6,
      kills: [{ cause: "stop", killed: [{ pid: 7, name: "sleep" }], rounds: 1, took: 1, left: null, stuck: null, best_effort: false }],
    });
    expect(s.timeline.proof).toMatchObject({ text: "0 processes left, 38 ms", clean: true });
    expect(s.call("c1").state).toBe("interrupted");
    expect(s.timeline.items.at(-1)).toMatchObject({ text: "Stopped · 0 processes left, 38 ms", detail: "killed sleep 7" });
  });

  it("says so when a stop left a process", () => {
    const s = running();
    s.tell("TurnInterrupted", { cause: "stop", left: 1, unknown: 0, took: 2e9, kills: null });
    expect(s.timeline.proof).toMatchObject({ text: "1 process left, 2.0 s", clean: false });
  });

  it("proves nothing where nothing was killed", () => {
    const s = running();
    s.tell("TurnInterrupted", { cause: "stop", left: 0, unknown: 0, took: 1e6, kills: null });
    expect(s.timeline.proof).toBeNull();
    expect(s.timeline.items.at(-1)).toMatchObject({ text: "Stopped", tone: "plain" });
    s.tell("TurnInterrupted", { cause: "stop", left: 0, unknown: 1, took: 1e6, kills: null });
    expect(s.timeline.proof).toMatchObject({ text: "1 call may still run", clean: false });
  });

  const used = { input: 1_000, output: 200, cache_read: 11_000, cache_write: 0 };
  const failed = { attempt: 1, attempts: 6, at: "2026-01-02T03:04:09Z", kind: "overloaded" as const, detail: "529" };

  it("tells of a retry, takes its live text off, and lets it become the past", () => {
    const s = new Story();
    s.tell("LLMRequestStarted", { model: "m" });
    s.live({ kind: "text", call_id: "", data: "Hel" });
    s.tell("LLMRetryScheduled", failed);
    expect(s.timeline.answer.text).toBe("");
    expect(s.timeline.items).toMatchObject([{ text: "The model is overloaded: attempt 2 of 6", until: failed.at, detail: "529" }]);
    s.tell("LLMRetryScheduled", { ...failed, attempt: 2, kind: "network" });
    expect(s.timeline.items).toMatchObject([{ text: "The model was not reached: attempt 3 of 6", until: failed.at }]);
    s.tell("LLMRequestFinished", { model: "m", usage: used, cost_usd: 0.02, duration: 1, error: "" });
    expect(s.timeline.items).toMatchObject([{ text: "The model was not reached: attempt 3 of 6", until: undefined, tone: "plain" }]);
  });

  it("says that a retry was not made", () => {
    const s = new Story();
    s.tell("LLMRetryScheduled", failed);
    s.tell("TurnInterrupted", { cause: "stop", left: 0, unknown: 0, took: 1e6, kills: null });
    expect(s.shown()[0]).toBe("The model is overloaded: attempt 2 of 6 was not made");
  });

  it("sums up a turn at its end, and only there", () => {
    const s = new Story();
    s.tell("TaskWoken", { cause: "message" });
    s.tell("LLMRequestFinished", { model: "m", usage: used, cost_usd: 0.02, duration: 1, error: "" });
    s.tell("TaskSuspended", { reason: "waiting_human", wake_on: "approval-c1", detail: "" });
    s.tell("LLMRequestFinished", { model: "m", usage: used, cost_usd: 0.01, duration: 1, error: "" });
    s.tell("TaskSuspended", { reason: "waiting_human", wake_on: "next-goal", detail: "" });
    expect(s.shown()).toEqual(["24k tokens read · 400 written · $0.030 · 0 s"]);
    s.tell("LLMRequestFinished", { model: "m", usage: used, cost_usd: null, duration: 1, error: "" });
    s.tell("TaskSuspended", { reason: "waiting_human", wake_on: "next-goal", detail: "" });
    expect(s.shown()[1]).toBe("12k tokens read · 200 written · 0 s");
  });

  it("folds a long log quickly", () => {
    const s = new Story();
    const started = performance.now();
    for (let i = 0; i < 25_000; i++) {
      s.tell("ToolCallStarted", { call_id: `c${i}`, tool: "Bash", input: { command: "ls" }, actor: "agent", where });
      s.result(`c${i}`);
    }
    expect(s.timeline.length).toBe(25_000);
    expect(performance.now() - started).toBeLessThan(2_000);
  });

  it("says once, in short, why a sandbox failed, and has the whole at hand", () => {
    const s = new Story();
    const cause = "make the container: the engine refuses the mount of /srv/data: it is not shared with the machine of the engine";
    s.tell("SandboxStateChanged", { condition: { value: "failed", cause, observed_at: "2026-01-02T03:04:05Z", source: "ledger" }, ref: "", detail: cause });
    s.tell("TaskSuspended", { reason: "turn_failed", wake_on: "next-goal", detail: `the sandbox: ${cause}` });
    const rows = s.timeline.items.flatMap((i) => (i.kind === "note" ? [i] : []));
    expect(rows.map((r) => r.text + r.detail).join("\n")).not.toContain(cause);
    expect(rows[0]).toMatchObject({ whole: cause, text: `Sandbox failed: ${cause.slice(0, 60)}…` });
    expect(rows[1]).toMatchObject({ text: "The turn failed with its sandbox", detail: "" });
    expect(s.timeline.since).toMatchObject({ value: "failed", cause, detail: cause });
  });

  it("tells a sandbox that somebody stopped in its making, or that was never had, as no failed turn", () => {
    const s = new Story();
    const failed = (cause: string) => ({ condition: { value: "failed" as const, cause, observed_at: "2026-01-02T03:04:05Z", source: "ledger" }, ref: "", detail: cause });
    const rows = () => s.timeline.items.flatMap((i) => (i.kind === "note" ? [`${i.tone}: ${i.text}`] : []));
    s.tell("SandboxStateChanged", failed("stopped before it was ready"));
    expect(rows()).toEqual(["plain: Sandbox stopped before it was ready"]);
    s.tell("SandboxStateChanged", failed("attach the container: it is read-only"));
    s.tell("TaskSuspended", { reason: "no_sandbox", wake_on: "next-goal", detail: "attach the container: it is read-only" });
    expect(rows().slice(1)).toEqual(["bad: Sandbox failed: attach the container: it is read-only"]);
    s.tell("TaskSuspended", { reason: "no_sandbox", wake_on: "next-goal", detail: "no engine" });
    expect(rows().slice(2)).toEqual(["bad: There is no sandbox"]);
  });

  it("keeps the steps of an allocation in one row", () => {
    const s = new Story();
    const condition = { value: "allocating" as const, cause: "", observed_at: "2026-01-02T03:04:05Z", source: "ledger" };
    s.tell("SandboxStateChanged", { condition, ref: "", detail: "create" });
    s.tell("SandboxStateChanged", { condition, ref: "", detail: "start" });
    s.tell("SandboxStateChanged", { condition: { ...condition, value: "ready" }, ref: "", detail: "" });
    expect(s.timeline.items.map((i) => i.kind === "note" && [i.text, i.detail])).toEqual([
      ["Sandbox allocating", "start"],
      ["Sandbox ready", ""],
    ]);
  });
});

describe("live output", () => {
  const text = (s: Story): string => s.call("c1").output.pieces.map((p) => (p.gap ? "[gap]" : p.text)).join("");

  it("joins pieces and keeps both streams in order", () => {
    const s = running();
    s.live({ data: "a" });
    s.live({ data: "b", offset: 1 });
    s.live({ data: "E", stream: "stderr" });
    s.live({ data: "c", offset: 2 });
    expect(s.call("c1").output.pieces.map((p) => [p.stream, p.text])).toEqual([["stdout", "ab"], ["stderr", "E"], ["stdout", "c"]]);
  });

  it("shows what comes twice once, and cuts what overlaps", () => {
    const s = running();
    s.live({ data: "héllo" });
    s.live({ data: "héllo" });
    s.live({ data: "llo world", offset: 3 });
    expect(text(s)).toBe("héllo world");
  });

  it("marks a gap", () => {
    const s = running();
    s.live({ data: "a" });
    s.live({ data: "z", offset: 100 });
    expect(text(s)).toBe("a[gap]z");
  });

  it("keeps the newest 64 KiB and counts the rest, cut at a line", () => {
    const s = running();
    for (let i = 0; i < 100; i++) s.live({ offset: i * 1000, data: `\x1b[31m${"x".repeat(994)}\n` });
    const got = text(s);
    expect(got.length).toBeLessThanOrEqual(65_536);
    expect(got.startsWith("\x1b[31m")).toBe(true);
    expect(s.call("c1").output.cut).toBe(100_000 - got.length);
  });

  it("cuts a line that does not end, but no sequence of a terminal", () => {
    const s = running();
    for (let i = 0; i < 100; i++) s.live({ offset: i * 1000, data: "\x1b[01;33m".repeat(125) });
    expect(text(s).replaceAll("\x1b[01;33m", "")).toBe("");
  });

  it("stays when it is all there is, since it has the order of the streams", () => {
    const s = running();
    s.live({ data: "a" });
    s.live({ data: "E", stream: "stderr" });
    s.result("c1", { display: { stdout_total: 1, stderr_total: 1 } });
    expect(text(s)).toBe("aE");
    expect(s.call("c1").output.whole(1, 1)).toBe(true);
  });

  it("bounds a line without an end", () => {
    const s = running();
    for (let i = 0; i < 100; i++) s.live({ offset: i * 1000, data: `${i % 10}`.repeat(1000) });
    expect(text(s)).toHaveLength(65_536);
    expect(text(s).endsWith("9".repeat(1000))).toBe(true);
    expect(s.call("c1").output.cut).toBe(100_000 - 65_536);
  });

  it("ends with the result", () => {
    const s = running();
    s.result("c1");
    s.live({ data: "late" });
    expect(text(s)).toBe("");
  });
});
