import type { Container } from "../api/types.gen";

const EVERY_MS = 2_000;

/** Card reads a session's sandbox back every two seconds while someone looks. */
export class Card {
  container = $state.raw<Container | null>(null);
  error = $state("");
  /** cpu is the share of one core used between the last two readings; -1 before there are two. */
  cpu = $state(-1);

  private timer: ReturnType<typeof setTimeout> | undefined;
  private stopped = false;

  constructor(private readonly read: () => Promise<Container>) {}

  /** start begins to read, and returns what ends it. */
  start(): () => void {
    this.stopped = false;
    void this.tick();
    return () => {
      this.stopped = true;
      clearTimeout(this.timer);
    };
  }

  private async tick(): Promise<void> {
    if (!document.hidden) {
      try {
        const next = await this.read();
        if (this.stopped) return;
        this.measure(this.container, next);
        this.container = next;
        this.error = next.error;
      } catch (err) {
        this.error = err instanceof Error ? err.message : String(err);
      }
    }
    if (!this.stopped) this.timer = setTimeout(() => void this.tick(), EVERY_MS);
  }

  private measure(last: Container | null, next: Container): void {
    if (!last?.stats || !next.stats) {
      this.cpu = -1;
      return;
    }
    const wall = (Date.parse(next.stats.observed_at) - Date.parse(last.stats.observed_at)) * 1e6;
    const used = next.stats.cpu - last.stats.cpu;
    if (wall > 0 && used >= 0) this.cpu = used / wall;
  }
}
