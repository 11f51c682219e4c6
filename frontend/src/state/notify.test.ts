import { describe, expect, it } from "vitest";
import type { Session, Waiting } from "../api/types.gen";
import { Notifier, notices, type Notice, type Surroundings } from "./notify.svelte";

function session(over: Partial<Session>): Session {
  return {
    id: "s", title: "T", status: "running", detail: "", model: "", workspace: "", wall: "docker", image: "", network: "", user: "",
    adopted: false, fork: null, shares: [], work: null, short_id: "", ref: "", sandbox: null, step: "", progress: null, approvals: "ask", agent: "main", plugins: [], goal: "", archived: false, waiting: null,
    running: null, retry: null, suspended: "waiting_human", usage: { input: 0, output: 0, cache_read: 0, cache_write: 0 }, cost_usd: null,
    generation: 1, created_at: "", updated_at: "", seq: 1, ...over,
  };
}

const wish = (over: Partial<Waiting>): Waiting => ({ task_id: "s", call_id: "c1", tool: "Bash", kind: "approval", reason: "", text: "", options: [], ...over });
const asked = session({ status: "waiting", waiting: [wish({})] });
const done = session({ status: "idle" });

describe("notices", () => {
  it("tells of an approval once", () => {
    expect(notices(session({}), asked).map((n) => n.key)).toEqual(["wait:s:c1"]);
    expect(notices(asked, { ...asked })).toEqual([]);
  });
  it("says what is wanted", () => {
    const body = (over: Partial<Waiting>): string | undefined => notices(session({}), session({ status: "waiting", waiting: [wish(over)] }))[0]?.body;
    expect(body({})).toBe("Bash waits for your approval");
    expect(body({ kind: "question", text: "Which colour?\nIt matters." })).toBe("The agent asks: Which colour?");
    expect(body({ kind: "hands", text: "Sign in." })).toBe("The agent needs you in the browser: Sign in.");
  });
  it("tells of an end and a failure, but not of what the person stopped", () => {
    expect(notices(session({}), done)[0]?.body).toBe("The turn is done");
    expect(notices(session({}), session({ status: "idle", suspended: "turn_failed", detail: "no key" }))[0]?.body).toBe("The turn failed: no key");
    expect(notices(session({}), session({ status: "idle", suspended: "interrupted" }))).toEqual([]);
    expect(notices(done, { ...done })).toEqual([]);
  });
});

/** windows are several windows of one browser: one lock and one channel. */
function windows(places: Partial<Surroundings>[]): { all: Notifier[]; shown: Notice[] } {
  const shown: Notice[] = [];
  const all: Notifier[] = [];
  let queue = Promise.resolve();
  for (const place of places) {
    const own: Notifier = new Notifier({
      looking: () => false,
      away: () => true,
      show: (n) => shown.push(n),
      tell: (key) => all.forEach((o) => o !== own && o.heard(key)),
      alone: (run) => (queue = queue.then(run)),
      wait: () => Promise.resolve(),
      now: () => 0,
      ...place,
    });
    all.push(own);
  }
  return { all, shown };
}

describe("Notifier", () => {
  it("calls once over all windows", async () => {
    const { all, shown } = windows([{}, {}, {}]);
    await Promise.all(all.map((n) => n.observe([session({})], [asked])));
    expect(shown.map((n) => n.key)).toEqual(["wait:s:c1"]);
  });
  it("does not call for what one of them looks at", async () => {
    const { all, shown } = windows([{}, { looking: () => true, away: () => false }]);
    await Promise.all(all.map((n) => n.observe([session({})], [asked])));
    expect(shown).toEqual([]);
  });
  it("tells of an end only who is away", async () => {
    const here = windows([{ away: () => false }]);
    await here.all[0]?.observe([session({})], [done]);
    expect(here.shown).toEqual([]);
    const away = windows([{}]);
    await away.all[0]?.observe([session({})], [done]);
    expect(away.shown).toHaveLength(1);
  });
  it("tells of the next end too", async () => {
    let now = 0;
    const { all, shown } = windows([{ now: () => now }]);
    await all[0]?.observe([session({})], [done]);
    now = 60_000;
    await all[0]?.observe([session({})], [done]);
    expect(shown).toHaveLength(2);
  });
  it("is silent about sessions that it did not know before", async () => {
    const { all, shown } = windows([{}]);
    await all[0]?.observe([], [asked]);
    expect(shown).toEqual([]);
  });
});
