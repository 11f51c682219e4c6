import { messageOf } from "../api/client";
import type { Container, Stats } from "../api/types.gen";

const EVERY_MS = 2_000;
/** How many readings the small curves show: two minutes of them. */
const KEPT = 60;

/** Use is what was used between two readings. */
export interface Use {
  /** cpu in cores. */
  cpu: number;
  memory: number;
  pids: number;
}

/** Card reads a session's sandbox back every two seconds while someone looks. */
export class Card {
  container = $state.raw<Container | null>(null);
  error = $state("");
  /** cpu is the share of one core used between the last two readings; -1 before there are two. */
  cpu = $state(-1);
  /** past are the last readings, oldest first. */
  past = $state.raw<Use[]>([]);

  private timer: ReturnType<typeof setTimeout> | undefined;
  private turn = 0;

  constructor(private readonly read: () => Promise<Container>) {}

  /** start begins to read, and returns what ends it. */
  start(): () => void {
    const turn = ++this.turn;
    const wake = (): void => {
      if (!document.hidden) void this.tick(turn);
    };
    document.addEventListener("visibilitychange", wake);
    void this.tick(turn);
    return () => {
      this.turn++;
      clearTimeout(this.timer);
      document.removeEventListener("visibilitychange", wake);
    };
  }

  private async tick(turn: number): Promise<void> {
    clearTimeout(this.timer);
    if (document.hidden) return; // who comes back wakes it
    try {
      const next = await this.read();
      if (turn !== this.turn) return;
      this.measure(this.container?.stats ?? null, next.stats);
      this.container = next;
      this.error = next.error;
    } catch (err) {
      if (turn !== this.turn) return;
      this.error = messageOf(err);
    }
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.tick(turn), EVERY_MS);
  }

  private measure(last: Stats | null, next: Stats | null): void {
    if (!last || !next) {
      this.cpu = -1;
      if (!next) this.past = [];
      return;
    }
    const wall = (Date.parse(next.observed_at) - Date.parse(last.observed_at)) * 1e6;
    const used = next.cpu - last.cpu;
    if (wall <= 0) return;
    if (used < 0) {
      this.past = []; // another container, or it was started anew
      this.cpu = -1;
      return;
    }
    this.cpu = used / wall;
    this.past = [...this.past, { cpu: this.cpu, memory: next.memory, pids: next.pids }].slice(-KEPT);
  }
}
