import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { BrowserOutline } from "../api/types.gen";
import { APART_MS, PageOutline, SETTLE_MS } from "./outline.svelte";

const page = (title: string): BrowserOutline => ({
  tab: { number: 1, target: "t", url: "http://x/", title, active: true, loading: false, crashed: false },
  nodes: [],
  cut: false,
});

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("PageOutline", () => {
  it("reads once for many changes, and not too often", async () => {
    const ask = vi.fn(() => Promise.resolve(page("one")));
    const o = new PageOutline(ask);
    for (let i = 0; i < 50; i++) o.changed();
    await vi.advanceTimersByTimeAsync(SETTLE_MS);
    expect(ask).toHaveBeenCalledTimes(1);
    expect(o.outline?.tab.title).toBe("one");
    o.changed();
    await vi.advanceTimersByTimeAsync(SETTLE_MS);
    expect(ask).toHaveBeenCalledTimes(1);
    await vi.advanceTimersByTimeAsync(APART_MS);
    expect(ask).toHaveBeenCalledTimes(2);
  });

  it("keeps what it has when a reading fails, and says why", async () => {
    const ask = vi.fn(() => Promise.resolve(page("one")));
    const o = new PageOutline(ask);
    await o.read();
    ask.mockRejectedValueOnce(new Error("the page does not answer"));
    await o.read();
    expect([o.outline?.tab.title, o.error]).toEqual(["one", "the page does not answer"]);
    await o.read();
    expect(o.error).toBe("");
  });

  it("reads once more when it was asked while it read", async () => {
    let answer: (o: BrowserOutline) => void = () => undefined;
    const ask = vi.fn(() => new Promise<BrowserOutline>((done) => (answer = done)));
    const o = new PageOutline(ask);
    const reading = o.read();
    void o.read();
    void o.read();
    answer(page("old"));
    await vi.advanceTimersByTimeAsync(0);
    answer(page("new"));
    await reading;
    expect([ask.mock.calls.length, o.outline?.tab.title, o.loading]).toEqual([2, "new", false]);
  });

  it("reads nothing after it was stopped", async () => {
    const ask = vi.fn(() => Promise.resolve(page("one")));
    const o = new PageOutline(ask);
    o.changed();
    o.stop();
    await vi.advanceTimersByTimeAsync(APART_MS * 2);
    expect(ask).not.toHaveBeenCalled();
  });
});
