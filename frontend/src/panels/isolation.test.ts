import { describe, expect, it } from "vitest";
import type { EngineContainer, Session, State } from "../api/types.gen";
import { causeText, cpuText, limitText, pillText } from "../views/words";
import { actsOf } from "./acts";
import { chipOf } from "./isolation";
import { networkOf } from "./network";

function session(over: Partial<Session> & { state?: State; cause?: string }): Session {
  const { state = "ready", cause = "", ...rest } = over;
  const sandbox = { value: state, cause, observed_at: "2026-01-02T03:04:05Z", source: "engine" };
  return { id: "s", wall: "docker", status: "idle", network: "none", adopted: false, short_id: "3f2a9c01d4e7", sandbox, ...rest } as Session;
}

describe("chipOf", () => {
  it.each([
    ["a container of ours", session({}), [], "good", "isolated · 3f2a…"],
    ["namespaces of ours", session({ wall: "namespace", short_id: "" }), [], "good", "isolated"],
    ["a sandbox by its URL", session({ wall: "remote", network: "open" }), [], "plain", "remote: its own walls"],
    ["a container that was found", session({ adopted: true }), ["the kernel is shared"], "plain", "found: its own walls"],
    ["a found one with an open network", session({ adopted: true, network: "open" }), [], "warn", "found: its own walls"],
    ["a found one that is privileged", session({ adopted: true }), ["it is privileged: what runs in it can take over this machine"], "warn", "found: its own walls, privileged"],
    ["no wall", session({ wall: "local", sandbox: null }), [], "warn", "no wall"],
  ])("%s", (_, s, notes, tone, text) => expect(chipOf(s, notes)).toMatchObject({ tone, text }));

  it.each<State>(["allocating", "stopped", "paused", "unreachable", "releasing", "released", "detached", "failed", "lost"])("is not there for one that is %s", (state) => {
    for (const over of [{}, { adopted: true }, { wall: "remote" as const }]) expect(chipOf(session({ ...over, state }), [])).toBeNull();
  });
  it("is not there before there is a sandbox", () => expect(chipOf(session({ sandbox: null }), [])).toBeNull());
});

describe("actsOf", () => {
  it("makes no new sandbox in place of a found container that was removed", () => {
    expect(actsOf(session({ adopted: true, state: "lost", cause: "removed" }), "lost").reprovision).toMatch(/gone: open a new session/);
    expect(actsOf(session({ state: "lost", cause: "removed" }), "lost").reprovision).toBe("");
    expect(actsOf(session({ adopted: true, state: "released" }), "released").reprovision).toBe("");
  });
  it("takes no snapshot of a found container, as the server does not", () => {
    expect(actsOf(session({ adopted: true }), "ready").snapshot).toMatch(/docker commit/);
    expect(actsOf(session({}), "ready").snapshot).toBe("");
  });
});

describe("words of a card", () => {
  it.each([["2g", "2g"], ["0", "not limited"], ["-1", "not limited"], ["0.5", "0.5"], [undefined, "not limited"]])("the limit %j is %j", (limit, want) => expect(limitText(limit)).toBe(want));
  it.each([
    [-1, "2", "…"],
    [0.5, "2", "0.50 of 2 cores"],
    [0.5, "0", "50 % of a core"],
    [0, undefined, "0 % of a core"],
  ])("%j of %j cores is %j", (cores, limit, want) => expect(cpuText(cores, limit)).toBe(want));
  it("a pill has room for a cause, not for why something failed", () => {
    expect(pillText(session({ state: "stopped", cause: "by hand" }).sandbox, "stopped")).toBe("stopped: by hand");
    expect(pillText(session({ state: "failed", cause: "no space left on device" }).sandbox, "failed")).toBe("failed");
  });
});

describe("networkOf", () => {
  const box = (over: Partial<EngineContainer>): EngineContainer => ({ network: "none", session_id: "s", ...over }) as EngineContainer;
  it.each([
    [box({}), "proxy", "by the proxy"],
    [box({}), "none", "no network"],
    [box({ session_id: "" }), "proxy", "no network"],
    [box({ network: "open", session_id: "" }), "proxy", "own network"],
  ])("%j beside a session with %s", (c, network, want) => expect(networkOf(c, [session({ network })]).short).toBe(want));
});

describe("causeText", () => {
  it("claims no cause that nobody has seen", () => {
    const stopped = { value: "stopped" as const, cause: "nobody saw why" };
    expect(causeText(stopped)).toBe("It ended unseen, so why is not known.");
    expect(causeText({ ...stopped, cause: "exited" })).toBe("Its first process ended by itself.");
  });
});
