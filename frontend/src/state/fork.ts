import type { Session } from "../api/types.gen";
import { isThere } from "./engine";

/** What a fork takes of its source's sandbox, and of its workspace. */
export type ForkSandbox = "snapshot" | "fresh" | "share";
export type ForkWorkspace = "share" | "copy";

export interface ForkChoice {
  value: ForkSandbox;
  label: string;
  means: string;
}

/** forkChoices are the sandboxes that a fork of a session can have, the one that is most like it first. */
export function forkChoices(s: Session): ForkChoice[] {
  const isHeld = isThere(s.sandbox?.value);
  const list: ForkChoice[] = [];
  if (s.wall === "docker" && isHeld && !s.adopted && s.sandbox?.value !== "unreachable") {
    list.push({ value: "snapshot", label: "own, from a snapshot", means: "A container of its own, with all that this one holds now." });
  }
  if (!s.adopted && s.wall !== "remote") {
    list.push({ value: "fresh", label: "own, fresh", means: "A new one from the same image: what was installed since is not in it." });
  }
  if (isHeld) {
    list.push({ value: "share", label: "shared", means: "Both use the same one. It goes when the last of them lets go." });
  }
  return list;
}

/** forkText says plainly what the two will have in common. */
export function forkText(sandbox: ForkSandbox, workspace: ForkWorkspace, path: string): string {
  const processes = sandbox === "share" ? "Processes, ports and installed packages are common to both." : "Neither sees the other's processes.";
  if (!path) return processes;
  const files = workspace === "share" ? `Both write to ${path} at the same time: agree on who does what.` : `The fork works on a copy of ${path}; changes do not reach each other.`;
  return `${files} ${processes}`;
}
