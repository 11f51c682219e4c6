import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { EventSocket, type Link, type Wire } from "./socket";
import type { Frame } from "./types.gen";

function eventOf(session: string, seq: number): Frame {
  const event = { seq, task_id: session, root_task_id: session, kind: "TaskWoken" as const, at: "", generation: 1, body: {} };
  return { type: "event", session_id: session, event };
}

class FakeWire implements Wire {
  readyState = 0;
  sent: Frame[] = [];
  closed = false;
  onopen: (() => void) | null = null;
  onclose: (() => void) | null = null;
  onerror: (() => void) | null = null;
  onmessage: ((m: { data: unknown }) => void) | null = null;

  send(data: string): void {
    this.sent.push(JSON.parse(data) as Frame);
  }
  close(): void {
    this.closed = true;
  }
  greet(instance = "i1", version = "v1"): void {
    this.readyState = 1;
    this.push({ type: "hello", instance, version });
  }
  push(f: Frame): void {
    this.onmessage?.({ data: JSON.stringify(f) });
  }
  event(session: string, seq: number): void {
    this.push(eventOf(session, seq));
  }
  events(session: string, ...seqs: number[]): void {
    this.onmessage?.({ data: JSON.stringify(seqs.map((seq) => eventOf(session, seq))) });
  }
  drop(): void {
    this.readyState = 3;
    this.onclose?.();
  }
}

function setUp() {
  const wires: FakeWire[] = [];
  const frames: Frame[] = [];
  const links: Link[] = [];
  const renewed: string[] = [];
  const socket = new EventSocket(
    () => {
      const wire = new FakeWire();
      wires.push(wire);
      return wire;
    },
    { frame: (f) => frames.push(f), link: (l) => links.push(l), renewed: (what) => renewed.push(what) },
  );
  socket.open();
  const wire = (): FakeWire => {
    const last = wires.at(-1);
    if (!last) throw new Error("no connection was made");
    return last;
  };
  const seqs = (): number[] => frames.flatMap((f) => (f.event ? [f.event.seq] : []));
  return { socket, wires, wire, frames, links, renewed, seqs };
}

describe("EventSocket", () => {
  it("takes many frames in one message, each once", () => {
    const { socket, wire, seqs } = setUp();
    wire().greet();
    socket.subscribe("a", 2);
    wire().events("a", 1, 2, 3, 4);
    wire().events("a", 4, 5);
    expect(seqs()).toEqual([3, 4, 5]);
  });

  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("subscribes once it was greeted", () => {
    const { socket, wire } = setUp();
    socket.subscribe("a", 7);
    expect(wire().sent).toEqual([]);
    wire().greet();
    expect(wire().sent).toEqual([{ type: "subscribe", session_id: "a", after: 7 }]);
  });

  it("resumes every subscription after the last event that came", () => {
    const { socket, wire } = setUp();
    wire().greet();
    socket.subscribe("a", 0);
    socket.subscribe("b", 0);
    wire().event("a", 3);
    wire().event("b", 5);
    wire().event("a", 9);
    socket.unsubscribe("b");
    wire().drop();
    vi.advanceTimersByTime(250);
    wire().greet();
    expect(wire().sent).toEqual([{ type: "subscribe", session_id: "a", after: 9 }]);
  });

  it("hands an event over once", () => {
    const { socket, wire, seqs } = setUp();
    wire().greet();
    socket.subscribe("a", 2);
    for (const seq of [1, 2, 3, 3, 4, 2]) wire().event("a", seq);
    wire().event("other", 5);
    expect(seqs()).toEqual([3, 4]);
  });

  it("waits longer after every failure, up to 5 s, and starts again after a success", () => {
    const { wire, wires, links } = setUp();
    const delays: number[] = [];
    for (let i = 0; i < 7; i++) {
      wire().drop();
      const last = links.at(-1);
      if (last?.state !== "waiting") throw new Error("not waiting");
      delays.push(last.retryAt - Date.now());
      vi.advanceTimersByTime(5_000);
    }
    expect(delays).toEqual([250, 500, 1000, 2000, 4000, 5000, 5000]);
    expect(wires).toHaveLength(8);
    wire().greet();
    wire().drop();
    const last = links.at(-1);
    expect(last?.state === "waiting" && last.retryAt - Date.now()).toBe(250);
  });

  it("takes 25 s of silence for a dead connection", () => {
    const { wire, wires } = setUp();
    const first = wire();
    first.greet();
    vi.advanceTimersByTime(20_000);
    first.push({ type: "ping" });
    vi.advanceTimersByTime(24_000);
    expect(first.closed).toBe(false);
    vi.advanceTimersByTime(1_000);
    expect(first.closed).toBe(true);
    vi.advanceTimersByTime(250);
    expect(wires).toHaveLength(2);
  });

  it("ignores what an old connection still says", () => {
    const { socket, wires, wire, seqs } = setUp();
    wire().greet();
    socket.subscribe("a", 0);
    wire().drop();
    vi.advanceTimersByTime(250);
    wire().greet();
    wires[0]?.event("a", 1);
    wires[0]?.onclose?.();
    expect(seqs()).toEqual([]);
    expect(wires).toHaveLength(2);
  });

  it("begins again at a server with another store", () => {
    const { socket, wire, renewed } = setUp();
    wire().greet("i1");
    socket.subscribe("a", 0);
    wire().event("a", 40);
    wire().drop();
    vi.advanceTimersByTime(250);
    wire().greet("i2");
    expect(renewed).toEqual(["instance"]);
    expect(wire().sent).toEqual([{ type: "subscribe", session_id: "a", after: 0 }]);
  });

  it("tells of another version", () => {
    const { wire, renewed } = setUp();
    wire().greet("i1", "v1");
    wire().drop();
    vi.advanceTimersByTime(250);
    wire().greet("i1", "v2");
    expect(renewed).toEqual(["version"]);
  });

  it("retries at once when asked, and never after it was closed", () => {
    const { socket, wire, wires } = setUp();
    wire().drop();
    socket.retryNow();
    expect(wires).toHaveLength(2);
    socket.close();
    vi.advanceTimersByTime(60_000);
    expect(wires).toHaveLength(2);
    expect(wire().closed).toBe(true);
  });

  it("skips what is no frame", () => {
    const { wire, frames } = setUp();
    wire().onmessage?.({ data: "{" });
    wire().onmessage?.({ data: new ArrayBuffer(4) });
    expect(frames).toEqual([]);
  });
});
