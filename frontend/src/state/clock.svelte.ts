/** Clock tells the time to what shows ages. It ticks once a second while someone started it. */
export class Clock {
  now = $state(Date.now());
  private timer: ReturnType<typeof setInterval> | undefined;

  start(): () => void {
    this.timer = setInterval(() => (this.now = Date.now()), 1000);
    return () => clearInterval(this.timer);
  }

  /** since returns the milliseconds from an RFC 3339 time until now. */
  since(at: string): number {
    return Math.max(0, this.now - Date.parse(at));
  }
}
