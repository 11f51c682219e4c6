import type { Session, Waiting } from "../api/types.gen";
import { oneLine, titleOf } from "../text/visible";

/** Notice is one thing that a person may want to be called for. */
export interface Notice {
  /** key is the same in every window. */
  key: string;
  id: string;
  title: string;
  body: string;
  /** away says that it is only for who has no window of ours before them. */
  away: boolean;
}

/** wishOf says what a call wants of the person. */
function wishOf(w: Waiting): string {
  if (w.kind === "question") return `The agent asks: ${oneLine(w.text)}`;
  if (w.kind === "hands") return `The agent needs you in the browser: ${oneLine(w.text)}`;
  return `${oneLine(w.tool)} waits for your approval`;
}

/** notices tells what happened between two states of a session that is worth a call. */
export function notices(before: Session, after: Session): Notice[] {
  const list: Notice[] = [];
  const title = titleOf(after);
  const known = new Set((before.waiting ?? []).map((w) => w.call_id));
  for (const w of after.waiting ?? []) {
    if (known.has(w.call_id)) continue;
    list.push({ key: `wait:${after.id}:${w.call_id}`, id: after.id, title, body: wishOf(w), away: false });
  }
  const wasActive = before.status === "running" || before.status === "waiting";
  const isOver = after.status === "idle" || after.status === "ended";
  // What a person stopped is no news to them.
  if (wasActive && isOver && after.suspended !== "interrupted") {
    const failed = after.suspended === "turn_failed";
    const body = failed ? `The turn failed: ${oneLine(after.detail) || "see the timeline"}` : "The turn is done";
    list.push({ key: `over:${after.id}`, id: after.id, title, body, away: true });
  }
  return list;
}

/** Surroundings are what a Notifier needs of the page. */
export interface Surroundings {
  /** looking reports whether the person has this session before them, in this window. */
  looking(id: string): boolean;
  /** away reports whether this window is out of sight. */
  away(): boolean;
  show(n: Notice): void;
  /** tell says a key to the other windows. */
  tell(key: string): void;
  /** alone runs in one window at a time. */
  alone(run: () => Promise<void>): Promise<void>;
  wait(ms: number): Promise<void>;
  now(): number;
}

/** A window that looks at a session has this long to say so before another one calls. */
const SPEAK_UP_MS = 250;
/** So long does the one that called hold the others off, until they have heard of it. */
const HOLD_MS = 150;
/** A turn has no id: the end of one within this time is the same end, seen by another window. */
const SAME_MS = 15_000;

/** Notifier calls a person once for what waits, however many windows are open. */
export class Notifier {
  private readonly told = new Map<string, number>();

  constructor(private readonly around: Surroundings) {}

  /** heard takes a key that another window dealt with. */
  heard(key: string): void {
    this.told.set(key, this.around.now());
  }

  async observe(before: readonly Session[], after: readonly Session[]): Promise<void> {
    const was = new Map(before.map((s) => [s.id, s]));
    const fresh = after.flatMap((s) => {
      const old = was.get(s.id);
      return old && old !== s ? notices(old, s) : [];
    });
    await Promise.all(fresh.map((n) => this.deal(n)));
  }

  private async deal(n: Notice): Promise<void> {
    if (this.around.looking(n.id)) return this.settle(n.key);
    if (n.away && !this.around.away()) return this.settle(n.key); // they are here: the list shows it
    await this.around.wait(SPEAK_UP_MS);
    await this.around.alone(async () => {
      if (this.isTold(n.key)) return;
      this.settle(n.key);
      this.around.show(n);
      await this.around.wait(HOLD_MS);
    });
  }

  private settle(key: string): void {
    this.told.set(key, this.around.now());
    this.around.tell(key);
  }

  private isTold(key: string): boolean {
    const at = this.told.get(key);
    return at !== undefined && (key.startsWith("wait:") || this.around.now() - at < SAME_MS);
  }
}

/** How windows of one browser know of each other; without it each one is alone. */
const CHANNEL = "glovebox.notices";

/** surround connects a Notifier to this window, and returns it with what ends that. */
export function surround(o: Pick<Surroundings, "looking" | "show">): { notifier: Notifier; stop: () => void } {
  const channel = new BroadcastChannel(CHANNEL);
  const notifier = new Notifier({
    ...o,
    away: () => document.hidden || !document.hasFocus(),
    tell: (key) => channel.postMessage(key),
    alone: (run) => navigator.locks.request(CHANNEL, run),
    wait: (ms) => new Promise((done) => setTimeout(done, ms)),
    now: () => Date.now(),
  });
  channel.onmessage = (e: MessageEvent<unknown>) => typeof e.data === "string" && notifier.heard(e.data);
  return { notifier, stop: () => channel.close() };
}
