import { untrack } from "svelte";
import { PANELS, type Panel } from "./route.svelte";

export type Theme = "system" | "light" | "dark";

const THEME = "glovebox.theme";
const DOCK = "glovebox.dock";
const NOTIFY = "glovebox.notify";

/** Dock is how a person likes the right side. */
export interface Dock {
  /** open says whether a session is opened with a panel beside it. */
  open: boolean;
  panel: Panel;
  below?: Panel;
  /** width in pixels. */
  width: number;
  /** share of the upper of two panels, in percent. */
  share: number;
}

export const DOCK_WIDTH = { least: 280, most: 1100, usual: 360 };
export const DOCK_SHARE = { least: 20, most: 80, usual: 50 };

/** Prefs are how a person likes the screen; they say nothing of what is selected. */
export class Prefs {
  theme = $state<Theme>("system");
  dock = $state.raw<Dock>({ open: true, panel: "container", width: DOCK_WIDTH.usual, share: DOCK_SHARE.usual });
  notify = $state(false);

  constructor(private readonly storage: Pick<Storage, "getItem" | "setItem">) {
    const theme = storage.getItem(THEME);
    if (theme === "light" || theme === "dark") this.theme = theme;
    this.notify = storage.getItem(NOTIFY) === "on";
    this.dock = { ...this.dock, ...readDock(storage.getItem(DOCK)) };
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    this.storage.setItem(THEME, theme);
    this.show();
  }

  /** show puts the theme on the page; tokens.css does the rest. */
  show(): void {
    if (this.theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.theme;
  }

  setDock(change: Partial<Dock>): void {
    const dock = untrack(() => ({ ...this.dock, ...change })); // so that an effect may set what it is not about
    this.dock = dock;
    this.storage.setItem(DOCK, JSON.stringify(dock));
  }

  setNotify(on: boolean): void {
    this.notify = on;
    this.storage.setItem(NOTIFY, on ? "on" : "off");
  }
}

/** readDock takes what is right of what was kept. */
export function readDock(text: string | null): Partial<Dock> {
  let kept: Record<string, unknown>;
  try {
    const value: unknown = JSON.parse(text ?? "{}");
    kept = typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    kept = {};
  }
  const panel = PANELS.find((p) => p === kept.panel);
  const below = PANELS.find((p) => p === kept.below && p !== panel);
  return {
    ...(typeof kept.open === "boolean" && { open: kept.open }),
    ...(panel && { panel }),
    ...(panel && below && { below }),
    ...(within(kept.width, DOCK_WIDTH) && { width: kept.width }),
    ...(within(kept.share, DOCK_SHARE) && { share: kept.share }),
  };
}

function within(n: unknown, { least, most }: { least: number; most: number }): n is number {
  return typeof n === "number" && n >= least && n <= most;
}
