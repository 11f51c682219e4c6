/** What was observed longer ago than this may not be true any more. */
const STALE_MS = 10_000;

/** Clock tells the time to what shows ages, and how far reaches what is known. It ticks once a second while someone started it. */
export class Clock {
  now = $state(Date.now());
  /** lostAt is when the server was heard last, while it does not answer; 0 while it does. */
  lostAt = $state(0);
  private timer: ReturnType<typeof setInterval> | undefined;

  start(): () => void {
    this.timer = setInterval(() => (this.now = Date.now()), 1000);
    return () => clearInterval(this.timer);
  }

  /** isLost says that nothing is heard: whatever is shown of now is of before. */
  get isLost(): boolean {
    return this.lostAt > 0;
  }

  /** since returns the milliseconds from an RFC 3339 time until now. */
  since(at: string): number {
    return Math.max(0, this.now - Date.parse(at));
  }

  /** lasted returns how long what began at a time is known to go on: it counts no further than the server was heard. */
  lasted(at: string): number {
    return Math.max(0, this.known - Date.parse(at));
  }

  /** until returns the milliseconds to a time from when the server was heard last; below 0 it has passed. */
  until(at: string): number {
    return Date.parse(at) - this.known;
  }

  /** isStale says that what was observed at a time may not be true any more; what was never observed does not age. */
  isStale(at: string | undefined): boolean {
    return at ? this.isLost || this.since(at) > STALE_MS : false;
  }

  private get known(): number {
    return this.lostAt || this.now;
  }
}
