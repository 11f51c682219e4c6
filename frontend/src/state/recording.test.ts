import { beforeEach, describe, expect, it, vi } from "vitest";
import { ApiError } from "../api/client";
import type { BrowserRecording, RecordingEntry, RecordingPage } from "../api/types.gen";
import { Recording, type RecordingServer, Track } from "./recording.svelte";

const NOON = Date.parse("2026-03-01T12:00:00Z");

const entry = (n: number, seconds: number, over: Partial<RecordingEntry> = {}): RecordingEntry => ({
  n, at: new Date(NOON + seconds * 1000).toISOString(), kind: "frame", tab: 1, url: "", title: "", width: 1280, height: 720,
  offset_top: 0, scroll_x: 0, scroll_y: 0, picture: n, label: "", box: null, call_id: "", failed: false, reason: "", ...over,
});
const action = (n: number, seconds: number, call = `c${n}`): RecordingEntry => entry(n, seconds, { kind: "action", label: `click ${n}`, call_id: call });
const gap = (n: number, seconds: number): RecordingEntry => entry(n, seconds, { kind: "gap", reason: "held" });

/** Two pictures, an action between them that was written when it had ended, an hour of nothing, and one more. */
const story = [entry(1, 0), entry(2, 4), action(3, 2), gap(4, 6), entry(5, 3606)];

class FakeServer implements RecordingServer {
  entries = story;
  first = 1;
  asked: string[] = [];
  on = true;

  recording = (_: string, after: number): Promise<RecordingPage> => {
    this.asked.push(`after ${after}`);
    const left = this.entries.filter((e) => e.n > after && e.n >= this.first);
    const info: BrowserRecording = { on: this.on, bytes: 10, limit: 100, frames: 3, first: this.first };
    return Promise.resolve({ entries: left.slice(0, 2), more: left.length > 2, info });
  };
  recordingPicture = (_: string, n: number): Promise<Blob> => {
    this.asked.push(`picture ${n}`);
    return n < this.first ? Promise.reject(new ApiError(404, "no_picture", "it went")) : Promise.resolve(new Blob([String(n)]));
  };
  eraseRecording = (): Promise<unknown> => {
    this.first = 6;
    this.entries = [entry(6, 3700, { kind: "gap", reason: "erased" })];
    return Promise.resolve({});
  };
}

describe("Track", () => {
  const track = new Track(story);

  it("orders by time, and makes gaps short", () => {
    expect(track.marks.map((m) => `${m.entry.n}@${m.place}`)).toEqual(["1@0", "3@2000", "2@4000", "4@6000", "5@8000"]);
    expect(track.time(3000)).toBe(NOON + 3000);
    expect(track.time(7000)).toBe(NOON + 1806_000);
    expect(new Track([]).time(5)).toBe(0);
  });

  it("shows the newest picture, what was just done, and why there is none", () => {
    expect(track.at(1999)).toEqual({ frame: story[0], gap: null, action: null });
    expect(track.at(2000)).toEqual({ frame: story[0], gap: null, action: story[2] });
    expect(track.at(3600)).toEqual({ frame: story[0], gap: null, action: null });
    expect(track.at(6500)).toEqual({ frame: null, gap: story[3], action: null });
    expect(new Track([action(1, 0)]).at(0).frame).toBeNull();
  });

  it("has stretches of nothing, and no more ticks than can be seen", () => {
    expect(track.gaps()).toEqual([{ from: 6000, to: 8000 }]);
    const busy = new Track(Array.from({ length: 1000 }, (_, i) => action(i + 1, i)));
    expect(busy.ticks(100).length).toBeLessThanOrEqual(101);
    expect(busy.ticks(100).at(-1)?.entry.n).toBe(1000);
  });

  it("steps to what is chosen", () => {
    expect(track.step(2000, 1)?.entry.n).toBe(2);
    expect(track.step(2000, -1)?.entry.n).toBe(1);
    expect(track.step(0, 1, (e) => e.kind === "action")?.entry.n).toBe(3);
    expect(track.step(8000, 1)).toBeUndefined();
  });
});

describe("Recording", () => {
  let server: FakeServer;
  let recording: Recording;
  let forgotten: string[];
  let held: number;
  const signal = (): AbortSignal => new AbortController().signal;

  beforeEach(() => {
    vi.useFakeTimers();
    server = new FakeServer();
    forgotten = [];
    held = 0;
    recording = new Recording(server, "s1", () => `blob:${++held}`, (a) => forgotten.push(a));
    return () => {
      recording.close();
      vi.useRealTimers();
    };
  });

  it("reads page by page, then only what is new, and stays at the end", async () => {
    await recording.read();
    expect(server.asked).toEqual(["after 0", "after 2", "after 4"]);
    expect(recording.place).toBe(8000);
    server.entries = [...story, entry(6, 3607)];
    await recording.read();
    expect(server.asked.at(-1)).toBe("after 5");
    expect(recording.place).toBe(9000);
  });

  it("leaves the head at its time when something comes, or the oldest goes", async () => {
    await recording.read();
    recording.seek(5000);
    server.entries = [...story, entry(6, 3607)];
    await recording.read();
    expect(recording.place).toBe(5000);
    server.first = 2;
    await recording.read();
    expect(recording.time).toBe(NOON + 5000);
  });

  it("plays, over gaps, to the end", async () => {
    await recording.read();
    recording.play();
    expect(recording.place).toBe(0);
    vi.advanceTimersByTime(2000);
    expect(recording.moment.action?.n).toBe(3);
    recording.speed = 4;
    vi.advanceTimersByTime(1500);
    expect(recording.place).toBe(8000);
    expect(recording.isPlaying).toBe(false);
  });

  it("goes to a call, also to one that is yet to be read", async () => {
    recording.seekCall("c3");
    await recording.read();
    expect(recording.place).toBe(2000);
    recording.seekCall("c9");
    expect(recording.missing).toBe(true);
    recording.seek(0);
    expect(recording.missing).toBe(false);
  });

  it("steps by entries and by actions, and no further than there is", async () => {
    await recording.read();
    recording.step(-1);
    expect(recording.moment.gap?.n).toBe(4);
    recording.step(-1, true);
    expect(recording.moment.action?.n).toBe(3);
    recording.step(-1, true);
    expect(recording.place).toBe(2000);
    recording.seek(-5);
    expect(recording.place).toBe(0);
  });

  it("fetches a picture once, the next one ahead, and says when one is gone", async () => {
    await recording.read();
    recording.seek(0);
    await recording.show(signal());
    expect(recording.pictured).toBe(1);
    recording.seek(4000);
    await recording.show(signal());
    expect(server.asked.filter((a) => a.startsWith("picture"))).toEqual(["picture 1", "picture 2", "picture 5"]);
    recording.seek(0);
    const late = new AbortController();
    late.abort();
    await recording.show(late.signal);
    expect(recording.pictured).toBe(2);
    recording.close();
    expect(forgotten).toHaveLength(3);
    server.first = 2;
    await recording.show(signal());
    expect(recording.lost).toBe(true);
  });

  it("erases, and forgets the pictures", async () => {
    await recording.read();
    await recording.show(signal());
    recording.seek(2000);
    await recording.erase();
    expect(recording.track.marks.map((m) => m.entry.n)).toEqual([6]);
    expect(recording.picture).toBe("");
    expect(forgotten).toHaveLength(1);

    server.entries = [...server.entries, entry(7, 3710)];
    await recording.read();
    expect([recording.follows, recording.moment.frame?.n]).toEqual([true, 7]); // nothing is left of where the head was
  });

  it("says why it could not be read", async () => {
    server.recording = () => Promise.reject(new ApiError(0, "unreachable", "The server does not answer."));
    await recording.read();
    expect(recording.fault).toBe("The server does not answer.");
  });
});
