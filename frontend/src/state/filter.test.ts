import { describe, expect, it } from "vitest";
import type { Session } from "../api/types.gen";
import { counts, grouped, head, sift } from "./filter";

function session(over: Partial<Session>): Session {
  return {
    id: "01", title: "", status: "idle", detail: "", model: "demo", workspace: "", wall: "docker", image: "", network: "", user: "",
    adopted: false, fork: null, shares: [], work: null, short_id: "", ref: "", sandbox: null, step: "", progress: null, approvals: "auto", agent: "main", plugins: [], goal: "", archived: false, waiting: null,
    running: null, retry: null, suspended: "interrupted", usage: { input: 0, output: 0, cache_read: 0, cache_write: 0 }, cost_usd: null,
    generation: 1, created_at: "2026-03-10T09:00:00Z", updated_at: "2026-03-10T09:00:00Z", seq: 1, ...over,
  };
}

const ids = (list: Session[]): string[] => list.map((s) => s.id);
const all = { query: "", kept: "all", wall: "" } as const;

describe("sift", () => {
  const list = [
    session({ id: "a", title: "Fix the parser", model: "anthropic:opus", workspace: "/src/web" }),
    session({ id: "b", goal: "parse the LOGS", status: "running", wall: "local" }),
    session({ id: "c", title: "Old parser", archived: true }),
    session({ id: "d", status: "ended", short_id: "3f2a9c01" }),
  ];

  it("hides what is archived until it is asked for", () => {
    expect(ids(sift(list, all))).toEqual(["a", "b", "d"]);
    expect(ids(sift(list, { ...all, kept: "archived" }))).toEqual(["c"]);
  });
  it.each([
    ["pars", ["a", "b"]],
    ["logs", ["b"]],
    ["web opus", ["a"]],
    ["web nothing", []],
    ["3F2A", ["d"]],
  ])("finds %j in title, goal, id, workspace and model", (query, want) => {
    expect(ids(sift(list, { ...all, query }))).toEqual(want);
  });
  it("keeps to a state and a wall", () => {
    expect(ids(sift(list, { ...all, kept: "running" }))).toEqual(["b"]);
    expect(ids(sift(list, { ...all, wall: "docker" }))).toEqual(["a", "d"]);
  });
  it("counts what each choice shows", () => {
    expect(counts(list)).toEqual({ all: 3, running: 1, waiting: 0, idle: 1, ended: 1, archived: 1 });
  });
});

describe("grouped", () => {
  it("puts what waits first and names the days", () => {
    const now = new Date(2026, 2, 10, 12).getTime();
    const at = (...day: [number, number, number]): string => new Date(...day, 8).toISOString();
    const groups = grouped(
      [
        session({ id: "a", created_at: at(2026, 2, 10) }),
        session({ id: "b", created_at: at(2026, 2, 9), status: "waiting" }),
        session({ id: "c", created_at: at(2026, 2, 9) }),
        session({ id: "d", created_at: at(2026, 2, 5) }),
        session({ id: "e", created_at: at(2026, 0, 5) }),
        session({ id: "f", created_at: at(2024, 0, 5) }),
      ],
      now,
    );
    expect(groups.map((g) => [g.title, ids(g.sessions)])).toEqual([
      ["Waiting for you", ["b"]],
      ["Today", ["a"]],
      ["Yesterday", ["c"]],
      ["This week", ["d"]],
      ["January", ["e"]],
      ["January 2024", ["f"]],
    ]);
  });
});

describe("head", () => {
  it("cuts after so many sessions, within a group or between two", () => {
    const groups = [
      { title: "A", sessions: [session({ id: "a" }), session({ id: "b" })] },
      { title: "B", sessions: [session({ id: "c" })] },
    ];
    const shape = (n: number): unknown => head(groups, n).map((g) => [g.title, ids(g.sessions)]);
    expect(shape(1)).toEqual([["A", ["a"]]]);
    expect(shape(2)).toEqual([["A", ["a", "b"]]]);
    expect(shape(9)).toEqual([["A", ["a", "b"]], ["B", ["c"]]]);
  });
});
