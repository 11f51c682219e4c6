import { describe, expect, it } from "vitest";
import { ApiError } from "../api/client";
import type { Terminal } from "../api/types.gen";
import { nameOf, TerminalPrefs, Terminals, type TerminalServer } from "./terminals.svelte";

const terminal = (id: string, over: Partial<Terminal> = {}): Terminal => ({
  id, argv: ["/bin/bash"], dir: "/w", pid: 7, cols: 80, rows: 24, started_at: "2026-01-01T00:00:00Z",
  ended_at: null, exit_code: 0, signal: "", start: 0, end: 0, views: 0, ...over,
});

function server(list: Terminal[], fault?: ApiError): TerminalServer {
  return {
    terminals: () => Promise.resolve([...list]),
    openTerminal: () => (fault ? Promise.reject(fault) : Promise.resolve(terminal("new"))),
    closeTerminal: () => Promise.resolve(undefined),
  };
}

describe("Terminals", () => {
  it("shows the newest one that lives", async () => {
    const t = new Terminals(server([terminal("a"), terminal("b"), terminal("c", { ended_at: "2026-01-01T00:00:01Z" })]), "s1");
    await t.refresh();
    expect(t.current).toBe("b");
  });

  it("shows the neighbour of one that was closed", async () => {
    const t = new Terminals(server([terminal("a"), terminal("b"), terminal("c")]), "s1");
    await t.refresh();
    t.current = "b";
    await t.close("b");
    expect(t.current).toBe("c");
    await t.close("c");
    expect(t.current).toBe("a");
  });

  it("keeps what it shows when there are too many", async () => {
    const t = new Terminals(server([terminal("a")], new ApiError(429, "busy", "close one first")), "s1");
    await t.refresh();
    expect(await t.open(80, 24)).toBe(false);
    expect(t.error).toEqual({ code: "busy", message: "close one first" });
    expect(t.current).toBe("a");
  });

  it("numbers those that run the same program", () => {
    const list = [terminal("a"), terminal("b", { argv: ["/usr/bin/top"] }), terminal("c", { argv: ["-bash"] })];
    expect(list.map((t) => nameOf(list, t))).toEqual(["bash 1", "top", "bash 2"]);
  });
});

describe("TerminalPrefs", () => {
  it("keeps sizes within reason, and starts from the usual when what was kept is not ours", () => {
    let kept = "nonsense";
    const storage = { getItem: () => kept, setItem: (_: string, v: string) => void (kept = v) };
    const prefs = new TerminalPrefs(storage);
    expect(prefs.size).toBe(13);
    for (let i = 0; i < 50; i++) prefs.grow(1);
    expect(new TerminalPrefs(storage).size).toBe(24);
  });
});
