import type { IconName } from "../ui/icons";

/** Mode is what the browser panel shows. */
export type Mode = "live" | "text" | "recording";

export const MODES: readonly { mode: Mode; label: string; icon: IconName }[] = [
  { mode: "live", label: "Live", icon: "eye" },
  { mode: "text", label: "Text", icon: "log" },
  { mode: "recording", label: "Recording", icon: "film" },
];
