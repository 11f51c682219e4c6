import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import type { About } from "../api/types.gen";
import { approvalsOf, blank, changesOf, commandOf, fieldOf, lacking, recent, requestOf, urlFault, wallOf, wallsOf, type Form } from "./request";

const wall = (wall: "docker" | "namespace" | "local" | "remote", available = true) => ({ wall, available, detail: "", fix: "", command: "", worth: "" });
const about: About = {
  version: "1", commit: "", instance: "", data_dir: "/data", pid: 1, started_at: "", models: [], default_model: "demo", agents: [{ name: "main", description: "", tools: [] }],
  plugins: [{ name: "browser", description: "", default: false }],
  home: "/home/kim", window: false, default_wall: "docker", default_image: "glovebox/tiny:1", default_spec: { wall: "docker", user: "host", resources: { memory: "2g" }, network: { mode: "none" } }, walls: [wall("local"), wall("docker"), wall("remote"), wall("namespace")], images: [],
};

const form = (change: Partial<Form>): Form => ({ ...blank(), goal: "go", ...change });

describe("the request", () => {
  it("names every right that the form shows, and leaves to the server what it does not", () => {
    expect(requestOf(form({ title: " t ", memory: " 4g " }), about)).toEqual({
      title: "t", goal: "go", workspace: "", model: "demo", agent: "", approvals: "auto", one_shot: false, plugins: [],
      spec: { wall: "docker", user: "host", resources: { memory: "4g" }, network: { mode: "none" } },
    });
  });

  it("follows what is configured, until something else is chosen", () => {
    const open: About = { ...about, default_spec: { user: "root", network: { mode: "open" } } };
    expect(requestOf(form({}), open).spec).toEqual({ wall: "docker", user: "root", network: { mode: "open" } });
    expect(changesOf(form({}), open)).toEqual([]);
    expect(requestOf(form({ network: "none", user: "host" }), open).spec).toEqual({ wall: "docker", user: "host", network: { mode: "none" } });
    expect(changesOf(form({ network: "none", user: "host" }), open)).toEqual(["network none", "user host"]);
  });

  it("asks nothing of a wall that has it not", () => {
    const all = { image: "x", network: "open", user: "root", memory: "1g", mounts: [{ id: 1, source: "/a", target: "/b", mode: "rw" }] } as const;
    expect(requestOf(form({ ...all, mounts: [...all.mounts], wall: "local" }), about).spec).toEqual({ wall: "local", network: {} });
    const spec = requestOf(form({ ...all, mounts: [...all.mounts], wall: "namespace" }), about).spec;
    expect(spec).toEqual({ wall: "namespace", mounts: [{ source: "/a", target: "/b", mode: "rw" }], resources: { memory: "1g" }, network: { mode: "none" } });
    const remote = requestOf(form({ ...all, mounts: [...all.mounts], wall: "remote", url: " http://127.0.0.1:8080 ", workspace: "/w", wire: "aio" }), about);
    expect(remote.spec).toEqual({ wall: "remote", base_url: "http://127.0.0.1:8080", network: {} });
    expect(remote.workspace).toBe("");
  });

  it("takes the proxy where nothing is configured, and adds to what is allowed", () => {
    const bare: About = { ...about, default_spec: { network: {} } };
    expect(requestOf(form({ allow: "db.lan:5432\n10.0.0.0/8, db.lan:5432" }), bare).spec.network).toEqual({ mode: "proxy", allow: ["db.lan:5432", "10.0.0.0/8"] });
    const configured: About = { ...about, default_spec: { network: { mode: "proxy", allow: ["a.lan"] } } };
    expect(requestOf(form({}), configured).spec.network).toEqual({ mode: "proxy" });
    expect(requestOf(form({ allow: "b.lan" }), configured).spec.network).toEqual({ mode: "proxy", allow: ["a.lan", "b.lan"] });
    expect(requestOf(form({ allow: "b.lan", network: "none" }), configured).spec.network).toEqual({ mode: "none" });
    expect(changesOf(form({ allow: "b.lan c.lan" }), configured)).toEqual(["2 allowed besides"]);
  });

  it("leaves out rows that were only added, and writes ~ out", () => {
    const mounts = [
      { id: 1, source: " ", target: "", mode: "ro" as const },
      { id: 2, source: "~/x", target: "/x ", mode: "ro" as const },
    ];
    const r = requestOf(form({ mounts, workspace: "~" }), about);
    expect(r.spec.mounts).toEqual([{ source: "/home/kim/x", target: "/x", mode: "ro" }]);
    expect(r.workspace).toBe("/home/kim");
  });

  it("never goes without a wall by itself", () => {
    expect(wallOf(form({}), { ...about, default_wall: "local" })).toBe("");
    expect(lacking(form({}), { ...about, default_wall: "local" }, false)?.field).toBe("wall");
    expect(lacking(form({ wall: "local" }), about, false)?.field).toBe("understood");
    expect(lacking(form({ wall: "local" }), about, true)).toBeNull();
    expect(lacking(form({ goal: " \n" }), about, true)?.field).toBe("goal");
    expect(approvalsOf(form({}), "local")).toBe("ask");
    expect(wallsOf(about).map((w) => w.wall)).toEqual(["docker", "namespace", "remote", "local"]);
  });
});

describe("the URL of a sandbox", () => {
  it.each([
    ["http://127.0.0.1:8080", true],
    ["https://box.example/prefix", true],
    ["", false],
    ["box.example:8080", false],
    ["ftp://box.example", false],
    ["http://", false],
    ["http://key@box.example", false],
    ["http://box.example/?key=1", false],
  ])("%s is one: %j", (text, isOne) => expect(urlFault(text) === "").toBe(isOne));

  it("is wanted where the remote wall is chosen, and configured is enough", () => {
    expect(lacking(form({ wall: "remote" }), about, false)?.field).toBe("base_url");
    expect(lacking(form({ wall: "remote" }), { ...about, default_spec: { base_url: "http://h:1", network: {} } }, false)).toBeNull();
  });
});

describe("the command line", () => {
  it("names a remote sandbox by its URL, and each host that is let through", () => {
    expect(commandOf(requestOf(form({ wall: "remote", url: "http://h:1/p" }), about), { approvals: "", browser: null })).toBe("glovebox run --wall http://h:1/p --model demo go");
    expect(commandOf(requestOf(form({ network: "proxy", allow: "a.lan\n*.b.lan:443" }), about), { approvals: "", browser: null })).toBe(
      "glovebox run --wall docker --model demo --network proxy --allow a.lan --allow '*.b.lan:443' --user host go",
    );
  });

  const hostile = ["it's mine", `a "b" $HOME \`id\` !!`, "two\nlines", "; rm -rf / #", "--help", "-", "\\", "a\tb", "é ☃ \u202e", "$(id)", "'", "''", "*?[a]~{x,y}"];

  it.each(hostile)("gives a shell the goal %j as one word", (goal) => {
    const line = commandOf(requestOf(form({ goal, workspace: `/w/${goal.trim()}`, image: goal }), about), form({}));
    const out = execFileSync("/bin/sh", ["-c", `glovebox() { for a; do printf '%s\\0' "$a"; done; }; ${line}`], { encoding: "utf8" });
    const words = out.split("\0").slice(0, -1);
    expect(words.at(-1)).toBe(goal.trim());
    expect(words[words.indexOf("--image") + 1]).toBe(goal.trim());
    expect(words[words.indexOf("--workspace") + 1]).toBe(`/w/${goal.trim()}`);
    if (goal.startsWith("-")) expect(words.at(-2)).toBe("--");
  });

  it("has the flags of glovebox run", () => {
    const f = form({
      goal: "go on", wall: "docker", image: "node:22", workspace: "/w", model: "openai:x", agent: "plan", approvals: "ask", network: "open", user: "root",
      memory: "4g", pids: "9", mounts: [{ id: 3, source: "/a b", target: "/c", mode: "ro" }],
    });
    expect(commandOf(requestOf(f, about), f)).toBe(
      `glovebox run --wall docker --image node:22 --workspace /w --model openai:x --agent plan --approvals ask --network open --user root --limit memory=4g --limit pids=9 --mount '{"source":"/a b","target":"/c","mode":"ro"}' 'go on'`,
    );
  });

  it("names the browser where it is given, and none where it is configured and not wanted", () => {
    const on: About = { ...about, plugins: [{ name: "browser", description: "", default: true }] };
    const line = (browser: boolean | null, of: About): string => {
      const f = form({ browser });
      return commandOf(requestOf(f, of), f);
    };
    expect(line(true, about)).toContain("--plugin browser ");
    expect(line(null, about)).not.toContain("--plugin");
    expect(line(null, on)).toContain("--plugin browser ");
    expect(line(false, on)).toContain("--plugin '' ");
    expect(requestOf(form({ browser: true, wall: "local" }), about).plugins).toEqual([]);
    expect(requestOf(form({ wall: "remote", url: "http://h:1" }), on).plugins).toEqual(["browser"]);
  });

  it("keeps a limit with signs of its own in one piece", () => {
    const f = form({ memory: `1,x=2"` });
    expect(commandOf(requestOf(f, about), f)).toContain(`--limit '"memory=1,x=2"""'`);
  });
});

describe("fields", () => {
  const rows = [
    { id: 7, source: "", target: "", mode: "ro" as const },
    { id: 8, source: "/a", target: "/b", mode: "ro" as const },
  ];
  it.each([
    ["spec.network.mode", "network"],
    ["spec.network.allow[1]", "allow"],
    ["spec.base_url", "base_url"],
    ["wire", "wire"],
    ["network", "network"],
    ["spec.resources.memory", "memory"],
    ["resources.cpus", "cpus"],
    ["spec.resources.gpu", ""],
    ["spec.mounts[0].source", "mounts.8.source"],
    ["mounts[0].target", "mounts.8.target"],
    ["mounts[0].mode", "mounts.8.mode"],
    ["mounts[0].kind", "mounts.8.source"],
    ["mounts[0]", "mounts.8.source"],
    ["mounts[1].source", ""],
    ["workspace", "workspace"],
    ["spec.image", "image"],
    ["agent", "agent"],
    ["env.PATH", ""],
    ["", ""],
  ])("%j is %j", (name, field) => {
    expect(fieldOf(name, rows)).toBe(field);
  });

  it("says what is not as usual", () => {
    expect(changesOf(form({}), about)).toEqual([]);
    expect(changesOf(form({ agent: "plan", approvals: "ask", network: "open", user: "root", cpus: "4", mounts: rows }), about)).toEqual([
      "agent plan", "approvals ask", "network open", "user root", "1 mount", "cpus 4",
    ]);
    expect(changesOf(form({ wall: "local", network: "open", memory: "1g", approvals: "auto" }), about)).toEqual(["approvals auto"]);
  });
});

it("workspaces are offered once, the newest first, and never those made for one session", () => {
  const s = (workspace: string, created_at: string) => ({ workspace, created_at });
  expect(recent([s("/a", "1"), s("/data/ws/1", "9"), s("/b", "3"), s("/a", "4"), s("", "5")], "/data")).toEqual(["/a", "/b"]);
});
