import { describe, expect, it } from "vitest";
import type { EngineContainer, State } from "../api/types.gen";
import { grouped, newest, offersOf, releaseText, sift } from "./engine";

function box(over: Partial<EngineContainer> & { state?: State }): EngineContainer {
  const { state = "ready", ...rest } = over;
  return {
    id: "3f2a9c01d4e7aa", short_id: "3f2a9c01d4e7", name: "web", image: "nginx:1", owner: "stranger", session_id: "", sessions: [], kept: false,
    condition: { value: state, cause: "", observed_at: "", source: "engine" }, ports: [], network: "open", created_at: "", ...rest,
  };
}

const names = (list: EngineContainer[]): string[] => list.map((c) => c.name);

describe("sift", () => {
  const list = [
    box({ name: "own", owner: "session", sessions: ["s1"], session_id: "s1" }),
    box({ name: "left", owner: "orphan", state: "stopped" }),
    box({ name: "db", image: "postgres:16", ports: ["127.0.0.1:5432->5432/tcp"] }),
    box({ name: "frozen", owner: "instance", state: "paused" }),
  ];
  const titles = new Map([["s1", "Fix the parser"]]);
  const all = { query: "", owner: "", kept: "any" } as const;

  it.each([
    [{ ...all }, ["own", "left", "db", "frozen"]],
    [{ ...all, query: "POSTGRES 5432" }, ["db"]],
    [{ ...all, query: "parser" }, ["own"]],
    [{ ...all, query: "3f2a9c01d4e7aa own" }, ["own"]],
    [{ ...all, owner: "orphan" as const }, ["left"]],
    [{ ...all, kept: "running" as const }, ["own", "db", "frozen"]],
    [{ ...all, kept: "stopped" as const, owner: "stranger" as const }, []],
  ])("%j lets through %j", (filter, want) => expect(names(sift(list, filter, titles))).toEqual(want));

  it("groups by owner, ours first, and takes an owner that it does not know for a stranger", () => {
    const groups = grouped([...list, box({ name: "new", owner: "martian" })]);
    expect(groups.map((g) => [g.owner, names(g.containers)])).toEqual([["session", ["own"]], ["orphan", ["left"]], ["stranger", ["db", "new"]], ["instance", ["frozen"]]]);
  });
});

describe("offersOf", () => {
  const can = (c: EngineContainer): string[] => Object.entries(offersOf(c)).filter(([, why]) => why === "").map(([name]) => name);

  it.each([
    ["a stranger that runs", box({}), ["attach", "stop", "shell", "logs"]],
    ["a stranger that is stopped", box({ state: "stopped" }), ["start", "logs"]],
    ["a stranger that is paused", box({ state: "paused" }), ["unpause", "stop", "logs"]],
    ["a session's", box({ owner: "session", session_id: "s", sessions: ["s"] }), ["attach", "stop", "release", "shell", "logs"]],
    ["an orphan", box({ owner: "orphan", state: "stopped" }), ["start", "release", "logs"]],
    ["one that its session kept, stopped", box({ owner: "session", session_id: "s", sessions: ["s"], kept: true, state: "stopped" }), ["attach", "start", "release", "shell", "logs"]],
    ["another instance's", box({ owner: "instance" }), ["logs"]],
  ])("%s offers %j", (_, c, want) => expect(can(c)).toEqual(want));

  it("says what a release does", () => {
    expect(releaseText(box({ owner: "orphan" }))).toMatch(/removed/);
    expect(releaseText(box({ owner: "session", sessions: ["a", "b"] }))).toMatch(/^2 sessions .*what was changed in it stays/);
    expect(releaseText(box({ owner: "session", session_id: "a", sessions: ["a"] }))).toMatch(/removed; the workspace stays/);
    expect(releaseText(box({ owner: "session", session_id: "a", sessions: ["a", "b"] }))).toMatch(/1 guest/);
  });
});

describe("newest", () => {
  const at = (observed_at: string) => ({ value: "ready" as const, cause: "", observed_at, source: "engine" });
  it("keeps what was observed last, whatever was told last", () => {
    const [old, young] = [at("2026-01-02T03:04:05Z"), at("2026-01-02T03:04:05.5Z")];
    expect(newest(young, old)).toBe(young);
    expect(newest(old, young)).toBe(young);
  });
  it("takes what is told where nothing is known, and where it says that nothing is there", () => {
    const one = at("2026-01-02T03:04:05Z");
    expect(newest(null, one)).toBe(one);
    expect(newest(one, null)).toBeNull();
    expect(newest(at("2026-01-02T03:04:05Z"), one)).toBe(one);
  });
});
