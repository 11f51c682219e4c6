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
  /** browser gives the agent the sandbox's browser; null follows what is configured. */
  browser: boolean | null;
  network: NetworkMode | "";
  /** allow are the entries that the proxy lets through besides, one a line. */
  allow: string;
  /** url is where the remote wall's sandbox is. */
  url: string;
  /** wire is what speaks in the image: our guest, or the AIO API that the image serves itself. */
  wire: "aio" | "";
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
  browser: null,
  network: "",
  allow: "",
  url: "",
  wire: "",
  user: "",
  memory: "",
  cpus: "",
  pids: "",
  mounts: [],
});

/** What the remote wall is worth where the server names none of its own. */
const REMOTE: WallInfo = {
  wall: "remote", available: true, detail: "", fix: "", command: "",
  worth: "A sandbox that is there already, shared by all who use it: what keeps it apart is whatever the other side has.",
};

/** wallsOf returns the walls that a session can be opened behind; the one that is none comes last. */
export function wallsOf(about: About | null): WallInfo[] {
  const order: Wall[] = ["docker", "namespace", "remote", "local"];
  const walls = about?.walls ?? [];
  // Any URL can be given, also where the configuration names none, or one that does not answer.
  const remote = walls.find((w) => w.wall === "remote") ?? REMOTE;
  const all = [...walls.filter((w) => w.wall !== "remote"), { ...remote, available: true }];
  return all.toSorted((a, b) => order.indexOf(a.wall) - order.indexOf(b.wall));
}

/** isOurs says that a wall is of our making: its network, mounts and limits are what a session asks for. */
export function isOurs(wall: Wall | ""): boolean {
  return wall !== "local" && wall !== "remote";
}

/** urlOf returns the URL of the remote wall's sandbox. */
export function urlOf(form: Form, about: About | null): string {
  return form.url.trim() || (about?.default_spec.base_url ?? "");
}

/** urlFault says what is wrong with the URL of a sandbox, or "". */
export function urlFault(text: string): string {
  if (text === "") return "Write the URL of a sandbox.";
  if (!/^https?:\/\//.test(text)) return "It begins with http:// or https://.";
  if (!URL.canParse(text)) return "This is not a URL.";
  const url = new URL(text);
  if (url.username || url.password) return "Leave the key out: it is read from the variable that exec_env.api_key_env names.";
  return url.search || url.hash ? "Leave out what follows the path." : "";
}

/** entriesOf returns what is written for the proxy to let through. */
function entriesOf(form: Form): string[] {
  return form.allow.split(/[\s,]+/).filter(Boolean);
}

/** allowOf returns what the proxy lets through besides public addresses: what is configured, and what is written. */
export function allowOf(form: Form, about: About | null): string[] {
  const entries = entriesOf(form);
  return entries.length > 0 ? [...new Set([...(about?.default_spec.network.allow ?? []), ...entries])] : [];
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

const BROWSER = "browser";

/** browserOf says whether the agent is given the sandbox's browser; on this machine itself there is none. */
export function browserOf(form: Form, about: About | null): boolean {
  if (wallOf(form, about) === "local") return false;
  return form.browser ?? (about?.plugins ?? []).some((p) => p.name === BROWSER && p.default);
}

/** pluginsOf returns what the agent is given beside its tools: what is configured, and what is chosen. */
export function pluginsOf(form: Form, about: About | null): string[] {
  const usual = (about?.plugins ?? []).filter((p) => p.default && p.name !== BROWSER).map((p) => p.name);
  return browserOf(form, about) ? [...usual, BROWSER] : usual;
}

export function networkOf(form: Form, about: About | null): NetworkMode {
  // Only a container can be given a network of the engine.
  if (form.network && (form.network !== "open" || wallOf(form, about) === "docker")) return form.network;
  return about?.default_spec.network.mode ?? "proxy";
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
  const ours = isOurs(wall);
  const network = networkOf(form, about);
  const allow = network === "proxy" ? allowOf(form, about) : [];
  const limits = Object.entries({ memory: form.memory, cpus: form.cpus, pids: form.pids })
    .map(([name, value]) => [name, value.trim()] as const)
    .filter(([, value]) => value !== "");
  const mounts = written(form.mounts).map((r): Mount => ({ source: atHome(r.source, home), target: r.target.trim(), mode: r.mode }));
  return {
    title: form.title.trim(),
    goal: form.goal.trim(),
    workspace: wall === "remote" ? "" : atHome(form.workspace, home),
    model: modelOf(form, about),
    agent: form.agent,
    approvals: approvalsOf(form, wall),
    one_shot: false,
    plugins: pluginsOf(form, about),
    spec: {
      ...(wall && { wall }),
      ...(wall === "docker" && form.image.trim() && { image: form.image.trim() }),
      ...(wall === "docker" && { user: userOf(form, about) }),
      ...(wall === "docker" && form.wire && { wire: form.wire }),
      ...(wall === "remote" && { base_url: urlOf(form, about) }),
      ...(ours && mounts.length > 0 && { mounts }),
      ...(ours && limits.length > 0 && { resources: Object.fromEntries(limits) }),
      network: ours ? { mode: network, ...(allow.length > 0 && { allow }) } : {},
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
export function commandOf(r: OpenRequest, form: Pick<Form, "approvals" | "browser">): string {
  const flags: [string, string][] = [];
  const add = (flag: string, value: string | undefined): void => {
    if (value) flags.push([`--${flag}`, value]);
  };
  add("wall", r.spec.base_url || r.spec.wall);
  add("image", r.spec.image);
  add("workspace", r.workspace);
  add("model", r.model);
  add("agent", r.agent);
  for (const plugin of r.plugins ?? []) add("plugin", plugin);
  if (form.browser === false && r.plugins?.length === 0) flags.push(["--plugin", ""]); // none, whatever is configured
  add("approvals", form.approvals);
  add("network", r.spec.network.mode);
  for (const entry of r.spec.network.allow ?? []) add("allow", entry);
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
  const ours = isOurs(wall);
  const usual = about?.agents?.[0]?.name ?? "";
  const network = networkOf(form, about);
  const rows = written(form.mounts).length;
  return [
    form.agent && form.agent !== usual ? `agent ${form.agent}` : "",
    form.approvals && form.approvals !== approvalsOf({ ...form, approvals: "" }, wall) ? `approvals ${form.approvals}` : "",
    ours && network !== networkOf({ ...form, network: "" }, about) ? `network ${network}` : "",
    ours && network === "proxy" && form.allow.trim() ? `${entriesOf(form).length} allowed besides` : "",
    wall === "docker" && form.wire ? "wire aio" : "",
    wall === "docker" && form.user && form.user !== userOf({ ...form, user: "" }, about) ? `user ${form.user}` : "",
    ours && rows > 0 ? count(rows, "mount") : "",
    ...(ours ? (["memory", "cpus", "pids"] as const).map((name) => (form[name].trim() ? `${name} ${form[name].trim()}` : "")) : []),
  ].filter((text) => text !== "");
}

/** Fault is what is wrong, and with which field: as the form names it, or "". */
export interface Fault {
  field: string;
  message: string;
}

const FIELDS = ["goal", "title", "workspace", "wall", "base_url", "image", "wire", "model", "agent", "approvals", "network", "user", "memory", "cpus", "pids"];

/**
 * fieldOf returns the form's field for one that the server names: "spec.network.mode"
 * is the network, "spec.mounts[1].source" is the source of the row that was sent
 * second. What the form has no field for is "".
 */
export function fieldOf(name: string, rows: Row[]): string {
  const bare = name.replace(/^spec\./, "").replace(/^resources\./, "");
  if (/^network\.allow/.test(bare)) return "allow";
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
  return /^(mounts\.|agent$|approvals$|network$|allow$|wire$|user$|memory$|cpus$|pids$)/.test(field);
}

/** lacking returns what has to be there before the server is asked. */
export function lacking(form: Form, about: About | null, understood: boolean): Fault | null {
  const wall = wallOf(form, about);
  if (form.goal.trim() === "") return { field: "goal", message: "Say what the agent should do." };
  if (wall === "") return { field: "wall", message: "Choose a wall." };
  const wrong = wall === "remote" ? urlFault(urlOf(form, about)) : "";
  if (wrong) return { field: "base_url", message: wrong };
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
