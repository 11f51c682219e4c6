import type { Session } from "../api/types.gen";
import type { IconName } from "../ui/icons";

/** Chip says in a word whose walls are around a session's commands. */
export interface Chip {
  /** good is for walls that we put up, plain for another's, warn for none or for those that do not hold. */
  tone: "good" | "plain" | "warn";
  icon: IconName;
  text: string;
  title: string;
}

const ASK = "Compare this machine with the sandbox";

/**
 * chipOf returns null where there is no sandbox that could keep anything apart.
 * notes are what the sandbox's description says of it.
 */
export function chipOf(s: Pick<Session, "wall" | "adopted" | "network" | "sandbox" | "short_id">, notes: readonly string[]): Chip | null {
  if (s.wall === "local") return { tone: "warn", icon: "alert", text: "no wall", title: "Commands run on this machine as you" };
  if (s.sandbox?.value !== "ready") return null;
  if (s.wall === "remote") return { tone: "plain", icon: "link", text: "remote: its own walls", title: `What keeps it apart is for whoever runs it to say. ${ASK}` };
  if (s.adopted) {
    const holes = [notes.some((n) => n.includes("privileged")) ? "privileged" : "", s.network === "open" ? "network open" : ""].filter(Boolean);
    return {
      tone: holes.length > 0 ? "warn" : "plain",
      icon: holes.length > 0 ? "alert" : "plug",
      text: `found: its own walls${holes.includes("privileged") ? ", privileged" : ""}`,
      title: `Whoever made the container chose what keeps it apart${holes.length > 0 ? `; it is ${holes.join(", ")}` : ""}. ${ASK}`,
    };
  }
  return { tone: "good", icon: "shield", text: s.short_id ? `isolated · ${s.short_id.slice(0, 4)}…` : "isolated", title: ASK };
}
