import type { About, Approvals, Mount, NetworkMode, OpenRequest, Wall, WallInfo } from "../api/types.gen";
import { count, shellQuote } from "../text/format";

/** Row is one further mount as it is written: nothing of it need be right yet. */
export interface Row {
  id: number;
  source: string;
  target: string;
  mode: "ro" | "rw";
}

/** Form is what a person wrote and chose for a new session. An empty choice follows the server's default. */
export interface Form {
  goal: string;
  title: string;
  workspace: string;
  wall: Wall | "";
  image: string;
  model: string;
  agent: string;
  approvals: Approvals | "";
  network: NetworkMode | "";
  user: "host" | "image" | "root" | "";
  memory: string;
  cpus: string;
  pids: string;
  mounts: Row[];
}

export const blank = (): Form => ({
  goal: "",
  title: "",
  workspace: "",
  wall: "",
  image: "",
  model: "",
  agent: "",
  approvals: "",
  network: "",
  user: "",
  memory: "",
  cpus: "",
  pids: "",
  mounts: [],
});

/** wallsOf returns the walls that a session can be opened behind; the one that is none comes last. */
export function wallsOf(about: About | null): WallInfo[] {
  const walls = (about?.walls ?? []).filter((w) => w.wall !== "remote");
  return walls.toSorted((a, b) => Number(a.wall === "local") - Number(b.wall === "local"));
}

/** wallOf returns the wall that is chosen: none is chosen for a person but a real one. */
export function wallOf(form: Form, about: About | null): Wall | "" {
  if (form.wall) return form.wall;
  const usual = about?.default_wall ?? "";
  return usual === "local" ? "" : usual;
}

export function modelOf(form: Form, about: About | null): string {
  return form.model.trim() || (about?.default_model ?? "");
}

export function agentOf(form: Form, about: About | null): string {
  return form.agent || (about?.agents?.[0]?.name ?? "");
}

export function networkOf(form: Form, about: About | null): NetworkMode {
  return form.network || (about?.default_spec.network.mode ?? "none");
}

export function userOf(form: Form, about: About | null): Exclude<Form["user"], ""> {
  const usual = about?.default_spec.user;
  return form.user || (usual === "image" || usual === "root" ? usual : "host");
}

/** approvalsOf follows the wall where nothing is chosen: behind one nothing is asked, without one everything. */
export function approvalsOf(form: Form, wall: Wall | ""): Approvals {
  return form.approvals || (wall === "local" ? "ask" : "auto");
}

/** written returns the rows that hold something: what was only added is not sent. */
export function written(rows: Row[]): Row[] {
  return rows.filter((r) => r.source.trim() !== "" || r.target.trim() !== "");
}

function atHome(path: string, home: string): string {
  const text = path.trim();
  return home && (text === "~" || text.startsWith("~/")) ? home.replace(/\/$/, "") + text.slice(1) : text;
}

/** requestOf returns what the server is asked for. */
export function requestOf(form: Form, about: About | null): OpenRequest {
  const wall = wallOf(form, about);
  const home = about?.home ?? "";
  const isApart = wall !== "local";
  const limits = Object.entries({ memory: form.memory, cpus: form.cpus, pids: form.pids })
    .map(([name, value]) => [name, value.trim()] as const)
    .filter(([, value]) => value !== "");
  const mounts = written(form.mounts).map((r): Mount => ({ source: atHome(r.source, home), target: r.target.trim(), mode: r.mode }));
  return {
    title: form.title.trim(),
    goal: form.goal.trim(),
    workspace: atHome(form.workspace, home),
    model: modelOf(form, about),
    agent: form.agent,
    approvals: approvalsOf(form, wall),
    one_shot: false,
    spec: {
      ...(wall && { wall }),
      ...(wall === "docker" && form.image.trim() && { image: form.image.trim() }),
      ...(wall === "docker" && { user: userOf(form, about) }),
      ...(isApart && mounts.length > 0 && { mounts }),
      ...(isApart && limits.length > 0 && { resources: Object.fromEntries(limits) }),
      network: isApart ? { mode: networkOf(form, about) } : {},
    },
  };
}

/** limitArg writes a limit as the flag reads it: one pair, or several with commas between, as a line of CSV. */
function limitArg(name: string, value: string): string {
  const pair = `${name}=${value}`;
  // A value with "=" in it makes the flag read CSV, where quotes keep a comma in its place.
  return value.includes("=") ? `"${pair.replaceAll('"', '""')}"` : pair;
}

/** commandOf returns the line that opens the same session from a POSIX shell. */
export function commandOf(r: OpenRequest, form: Pick<Form, "approvals">): string {
  const flags: [string, string][] = [];
  const add = (flag: string, value: string | undefined): void => {
    if (value) flags.push([`--${flag}`, value]);
  };
  add("wall", r.spec.wall);
  add("image", r.spec.image);
  add("workspace", r.workspace);
  add("model", r.model);
  add("agent", r.agent);
  add("approvals", form.approvals);
  add("network", r.spec.network.mode);
  add("user", r.spec.user);
  for (const [name, value] of Object.entries(r.spec.resources ?? {})) add("limit", limitArg(name, value));
  for (const mount of r.spec.mounts ?? []) add("mount", JSON.stringify(mount));
  const goal = r.goal || "goal";
  const words = ["glovebox", "run", ...flags.flat(), ...(goal.startsWith("-") ? ["--"] : []), goal];
  return words.map(shellQuote).join(" ");
}

/** changesOf names what is not as it usually is, of what is folded away. */
export function changesOf(form: Form, about: About | null): string[] {
  const wall = wallOf(form, about);
  const isApart = wall !== "local";
  const usual = about?.agents?.[0]?.name ?? "";
  const rows = written(form.mounts).length;
  return [
    form.agent && form.agent !== usual ? `agent ${form.agent}` : "",
    form.approvals && form.approvals !== approvalsOf({ ...form, approvals: "" }, wall) ? `approvals ${form.approvals}` : "",
    isApart && form.network && form.network !== networkOf({ ...form, network: "" }, about) ? `network ${form.network}` : "",
    wall === "docker" && form.user && form.user !== userOf({ ...form, user: "" }, about) ? `user ${form.user}` : "",
    isApart && rows > 0 ? count(rows, "mount") : "",
    ...(isApart ? (["memory", "cpus", "pids"] as const).map((name) => (form[name].trim() ? `${name} ${form[name].trim()}` : "")) : []),
  ].filter((text) => text !== "");
}

/** Fault is what is wrong, and with which field: as the form names it, or "". */
export interface Fault {
  field: string;
  message: string;
}

const FIELDS = ["goal", "title", "workspace", "wall", "image", "model", "agent", "approvals", "network", "user", "memory", "cpus", "pids"];

/**
 * fieldOf returns the form's field for one that the server names: "spec.network.mode"
 * is the network, "spec.mounts[1].source" is the source of the row that was sent
 * second. What the form has no field for is "".
 */
export function fieldOf(name: string, rows: Row[]): string {
  const bare = name.replace(/^spec\./, "").replace(/^resources\./, "");
  const mount = /^mounts\[(\d+)\](?:\.(\w+))?$/.exec(bare);
  if (mount) {
    const row = written(rows)[Number(mount[1])];
    if (!row) return "";
    const part = mount[2] === "target" || mount[2] === "mode" ? mount[2] : "source";
    return `mounts.${row.id}.${part}`;
  }
  const first = bare.split(".")[0] ?? "";
  return FIELDS.includes(first) ? first : "";
}

/** The fields that lie under the fold. */
export function isFolded(field: string): boolean {
  return /^(mounts\.|agent$|approvals$|network$|user$|memory$|cpus$|pids$)/.test(field);
}

/** lacking returns what has to be there before the server is asked. */
export function lacking(form: Form, about: About | null, understood: boolean): Fault | null {
  const wall = wallOf(form, about);
  if (form.goal.trim() === "") return { field: "goal", message: "Say what the agent should do." };
  if (wall === "") return { field: "wall", message: "Choose a wall." };
  if (wall === "local" && !understood) return { field: "understood", message: "Tick this to go on without a wall, or choose one." };
  return null;
}

/** recent returns the workspaces of the newest sessions; those that Glovebox made for one are not used again. */
export function recent(sessions: readonly { workspace: string; created_at: string }[], dataDir: string): string[] {
  const found = sessions
    .toSorted((a, b) => (a.created_at < b.created_at ? 1 : -1))
    .map((s) => s.workspace)
    .filter((path) => path !== "" && !(dataDir && path.startsWith(`${dataDir}/`)));
  return [...new Set(found)].slice(0, 5);
}
