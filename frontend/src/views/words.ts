import type { Condition, KillReport, Process, Session, Status, Wall, Where } from "../api/types.gen";
import { isCalledOff } from "../state/engine";
import type { CallState } from "../state/items.svelte";
import { count, took } from "../text/format";
import { oneLine } from "../text/visible";
import type { IconName, Tone } from "../ui/icons";

/** How a state looks: always an icon and a word beside the colour. */
export interface Look {
  tone: Tone;
  icon: IconName;
  text: string;
  spin?: boolean;
}

const statuses: Record<Status, Look> = {
  running: { tone: "info", icon: "spinner", text: "running", spin: true },
  waiting: { tone: "warn", icon: "hand", text: "waiting for you" },
  idle: { tone: "plain", icon: "circle", text: "idle" },
  ended: { tone: "plain", icon: "check", text: "ended" },
};

export function statusLook(status: Status): Look {
  return statuses[status];
}

const sandboxes: Record<Condition["value"], Look> = {
  allocating: { tone: "info", icon: "spinner", text: "allocating", spin: true },
  ready: { tone: "good", icon: "box", text: "ready" },
  stopped: { tone: "warn", icon: "stop", text: "stopped" },
  paused: { tone: "warn", icon: "pause", text: "paused" },
  unreachable: { tone: "warn", icon: "cloudOff", text: "unreachable" },
  releasing: { tone: "info", icon: "spinner", text: "releasing", spin: true },
  released: { tone: "plain", icon: "eject", text: "released" },
  detached: { tone: "plain", icon: "link", text: "kept, let go" },
  failed: { tone: "bad", icon: "alert", text: "failed" },
  lost: { tone: "bad", icon: "boxOff", text: "lost" },
};

export function sandboxLook(s: Session): Look {
  if (s.wall === "local") return { tone: "warn", icon: "host", text: "no wall" };
  if (!s.sandbox) return { tone: "plain", icon: "box", text: "no sandbox yet" };
  if (isCalledOff(s.sandbox)) return { tone: "plain", icon: "stop", text: "not made" };
  const look = sandboxes[s.sandbox.value] ?? { tone: "plain", icon: "box", text: s.sandbox.value };
  if (s.sandbox.value === "allocating" && s.step) return { ...look, text: s.step };
  return look;
}

/** pillText names a state and what brought it about. Why one failed is a whole sentence or more: a banner and the card have room for it. */
export function pillText(c: Condition | null | undefined, text: string): string {
  return c?.cause && c.value !== "failed" ? `${text}: ${oneLine(c.cause)}` : text;
}

/** isGoneForGood says that the container of a session was there before it, and is there no more: nobody can make that again. */
export function isGoneForGood(s: Pick<Session, "adopted">, c: Condition | null | undefined): boolean {
  return s.adopted && c?.value === "lost" && c.cause === "removed";
}

/** failedText says what it is that failed with a sandbox. */
export function failedText(s: Pick<Session, "adopted">): string {
  return s.adopted ? "The container could not be attached" : "The sandbox could not be made or started";
}

/** notUpTitle names a state in which a sandbox shows nothing. */
export function notUpTitle(value: Condition["value"]): string {
  switch (value) {
    case "failed":
      return "There is no sandbox";
    case "unreachable":
      return "The sandbox does not answer";
    case "allocating":
      return "The sandbox is being made";
    default:
      return `The sandbox is ${value}`;
  }
}

/** limitText says a limit of a sandbox; the engine writes 0 or less where there is none. */
export function limitText(limit: string | undefined): string {
  return limit === undefined || Number.parseFloat(limit) <= 0 ? "not limited" : limit;
}

/** cpuText says how many cores are used, of how many; cores is -1 before there are two readings. */
export function cpuText(cores: number, limit: string | undefined): string {
  if (cores < 0) return "…";
  return Number(limit) > 0 ? `${cores.toFixed(2)} of ${limit} cores` : `${Math.round(cores * 100)} % of a core`;
}

/** placeLook is how a container of the engine looks: in the engine's words, where nothing says that it is a sandbox. */
export function placeLook(c: Condition): Look {
  const look = sandboxes[c.value] ?? { tone: "plain", icon: "box", text: c.value };
  if (c.value === "ready") return { ...look, text: "running" };
  return c.value === "stopped" ? { ...look, tone: "plain", text: c.cause && c.cause !== "exited" ? `stopped: ${c.cause}` : "stopped" } : look;
}

/** causeText says in a sentence why a sandbox is as it is; limit is its memory's. "" where the cause says nothing more. */
export function causeText({ value, cause }: Pick<Condition, "value" | "cause">, limit = ""): string {
  switch (cause) {
    case "by hand":
      return value === "stopped" ? "Somebody stopped it." : "";
    case "killed":
      return "Its first process was killed from outside.";
    case "out of memory":
      return `It took more memory than it may${limit ? `: its limit is ${limit}` : ""}. Start it again, or give the next one more.`;
    case "stopped before it was ready":
      return "Somebody stopped it before it was ready. Nothing of it is left.";
    case "idle":
      return "Nobody used it for a while, so it was stopped to save this machine's memory.";
    case "exited":
      return "Its first process ended by itself.";
    case "nobody saw why":
      return "It ended unseen, so why is not known.";
    case "removed":
      return "Somebody removed it.";
    case "others share it; it stays":
      return "Other sessions share it, so it stays until the last of them lets go.";
    case "its place is another's":
      return "What its address names now is something else.";
    case "engine not answering":
      return "The engine does not answer, so nobody can say how it is.";
    case "the other side is not answering":
      return "The other side does not answer.";
    case "the key was refused":
      return "The other side refused our key.";
    default:
      return "";
  }
}

/** FROZEN says what a paused sandbox is, and what helps. */
export const FROZEN = "Its processes are frozen by someone else. Unpause lets them go on where they were.";

const calls: Record<CallState, Look> = {
  queued: { tone: "plain", icon: "circle", text: "queued" },
  waiting: { tone: "warn", icon: "hand", text: "waiting for you" },
  running: { tone: "info", icon: "spinner", text: "running", spin: true },
  ok: { tone: "good", icon: "check", text: "ok" },
  error: { tone: "bad", icon: "x", text: "error" },
  timeout: { tone: "bad", icon: "alert", text: "timed out" },
  interrupted: { tone: "warn", icon: "stop", text: "stopped" },
  unknown: { tone: "warn", icon: "alert", text: "outcome unknown" },
  lost: { tone: "bad", icon: "boxOff", text: "sandbox lost" },
  denied: { tone: "warn", icon: "hand", text: "denied" },
};

export function callLook(state: CallState): Look {
  return calls[state];
}

/** questionLook says how it is with a call that asks the person. */
export function questionLook(state: CallState): Look {
  if (state === "ok") return { ...calls.ok, text: "answered" };
  if (state === "denied") return { ...calls.denied, text: "declined" };
  return calls[state];
}

const tools: Record<string, IconName> = {
  Bash: "terminal",
  Edit: "pencil",
  Write: "filePlus",
  Read: "file",
  Glob: "folder",
  Grep: "search",
  Task: "sparkle",
};

export function toolIcon(tool: string): IconName {
  return tools[tool] ?? (tool.startsWith("browser_") ? "browser" : "tool");
}

/** whereText says where a call ran, in the words of its card. */
export function whereText(w: Where): string {
  return w.wall === "local" || !w.sandbox_id ? "on the host" : `in ${w.sandbox_id} (${w.wall})`;
}

/** ranText says the same in a sentence of its own. */
export function ranText(w: Where, over: boolean): string {
  const verb = over ? "Ran" : "Runs";
  if (w.wall === "local" || !w.sandbox_id) return `${verb} on the host`;
  return `${verb} in ${w.wall === "docker" ? "container" : `a ${w.wall} sandbox,`} ${w.sandbox_id}`;
}

export const wallNames: Record<Wall, string> = {
  docker: "Docker container",
  namespace: "Linux namespaces",
  remote: "Remote sandbox",
  local: "No wall",
};

function named(list: Process[]): string {
  const shown = list.slice(0, 6).map((p) => `${p.name} ${p.pid}`);
  return list.length > shown.length ? `${shown.join(", ")} and ${list.length - shown.length} more` : shown.join(", ");
}

export function backgroundText(list: Process[]): string {
  return `${count(list.length, "process", "processes")} still running: ${named(list)}`;
}

/** killText tells the proof of a kill: who was ended, and what a last scan still found. */
export function killText(k: KillReport): string {
  const killed = k.killed ?? [];
  const left = k.left ?? [];
  const stuck = k.stuck ?? [];
  const parts = [killed.length ? `killed ${named(killed)}` : "nothing was left to kill"];
  parts.push(`${count(left.length, "process", "processes")} left, ${took(k.took)}`);
  if (left.length) parts.push(`still alive: ${named(left)}`);
  if (stuck.length) parts.push(`stuck in the kernel: ${named(stuck)}`);
  if (k.best_effort) parts.push("best effort: a command can hide here");
  return parts.join(" · ");
}

/** shortPath leaves out the workspace in front of a path. */
export function shortPath(path: string, workdir: string): string {
  return workdir && path.startsWith(`${workdir}/`) ? path.slice(workdir.length + 1) : path;
}
