import { describe, expect, it } from "vitest";
import { Clock } from "./clock.svelte";

const START = Date.parse("2026-01-02T03:04:05Z");
const after = (seconds: number): string => new Date(START + seconds * 1000).toISOString();

describe("Clock", () => {
  it("takes what was observed a while ago for stale", () => {
    const clock = new Clock();
    clock.now = START + 20_000;
    expect(clock.isStale(after(15))).toBe(false);
    expect(clock.isStale(undefined)).toBe(false);
    expect(clock.isStale(after(5))).toBe(true);
  });

  it("takes all for stale at once when the server is lost, and counts no further", () => {
    const clock = new Clock();
    clock.now = START + 5_000;
    clock.lostAt = START + 4_000;
    expect(clock.isStale(after(4))).toBe(true);
    clock.now = START + 60_000;
    expect(clock.lasted(after(1))).toBe(3_000);
    expect(clock.until(after(6))).toBe(2_000);
    expect(clock.since(after(1))).toBe(59_000); // an age goes on
    clock.lostAt = 0;
    expect(clock.lasted(after(1))).toBe(59_000);
    expect(clock.isStale(after(59))).toBe(false);
  });
});
