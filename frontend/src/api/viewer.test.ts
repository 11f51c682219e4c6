import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { RelayFrame, RelayState } from "./types.gen";
import { readFrame, ViewerSocket, viewerOf, type Size, type ViewerLink, type ViewerWire } from "./viewer";

class FakeWire implements ViewerWire {
  readyState = 0;
  sent: Record<string, unknown>[] = [];
  closed = false;
  onopen: (() => void) | null = null;
  onclose: (() => void) | null = null;
  onmessage: ((m: { data: unknown }) => void) | null = null;
  constructor(readonly size: Size) {}
  send(data: string): void {
    this.sent.push(JSON.parse(data) as Record<string, unknown>);
  }
  close(): void {
    this.closed = true;
    this.readyState = 3;
  }
  open(): void {
    this.readyState = 1;
    this.onopen?.();
  }
  tell(m: unknown): void {
    this.onmessage?.({ data: JSON.stringify(m) });
  }
  frame(seq: number): void {
    this.onmessage?.({ data: frame(seq) });
  }
  of(type: string): Record<string, unknown>[] {
    return this.sent.filter((m) => m.type === type);
  }
}

function frame(seq: number): ArrayBuffer {
  const head = new TextEncoder().encode(JSON.stringify({ seq, tab: 1 }));
  const bytes = new Uint8Array(4 + head.length + 3);
  new DataView(bytes.buffer).setUint32(0, head.length);
  bytes.set(head, 4);
  bytes.set([0xff, 0xd8, seq], 4 + head.length);
  return bytes.buffer;
}

const view = (over: Partial<RelayState> = {}): RelayState => ({ rev: 1, active: 1, tabs: [], control: { look: false }, ...over });

describe("ViewerSocket", () => {
  let wires: FakeWire[];
  let links: ViewerLink[];
  let shown: number[];
  let states: RelayState[];
  let faults: string[];
  let trips: number[];
  let draw: (head: RelayFrame) => Promise<void>;
  let socket: ViewerSocket;
  const last = (): FakeWire => {
    const wire = wires.at(-1);
    if (!wire) throw new Error("nothing was connected");
    return wire;
  };

  beforeEach(() => {
    vi.useFakeTimers();
    [wires, links, shown, states, faults, trips] = [[], [], [], [], [], []];
    draw = () => Promise.resolve();
    socket = new ViewerSocket(
      (size) => {
        const wire = new FakeWire(size);
        wires.push(wire);
        return wire;
      },
      {
        frame: async (head) => {
          await draw(head);
          shown.push(head.seq);
        },
        state: (s) => states.push(s),
        link: (l) => links.push(l),
        failed: (e) => faults.push(e.code),
        delay: (trip) => trips.push(trip),
      },
    );
  });
  afterEach(() => vi.useRealTimers());

  it("says of a frame that it has it only when it is on the screen", async () => {
    let drawn = (): void => undefined;
    draw = () => new Promise((done) => (drawn = done));
    socket.open();
    last().open();
    last().frame(1);
    last().frame(2);
    await vi.advanceTimersByTimeAsync(0);
    expect(last().of("got")).toEqual([]);
    drawn();
    await vi.advanceTimersByTimeAsync(0);
    expect(last().of("got")).toEqual([{ type: "got", seq: 1 }]);
    expect(shown).toEqual([1]);
    drawn();
    await vi.advanceTimersByTimeAsync(0);
    expect(shown).toEqual([1, 2]);
  });

  it("goes on after a picture that cannot be drawn", async () => {
    draw = (head) => (head.seq === 1 ? Promise.reject(new Error("no picture")) : Promise.resolve());
    socket.open();
    last().open();
    last().frame(1);
    last().frame(2);
    await vi.advanceTimersByTimeAsync(0);
    expect(last().of("got").map((m) => m.seq)).toEqual([1, 2]);
    expect(shown).toEqual([2]);
  });

  it("connects again, later each time, and soon again once it was told something", () => {
    socket.open();
    for (const delay of [250, 500, 1000]) {
      last().onclose?.();
      const n = wires.length;
      vi.advanceTimersByTime(delay - 1);
      expect(wires.length).toBe(n);
      vi.advanceTimersByTime(1);
      expect(wires.length).toBe(n + 1);
    }
    last().open();
    last().tell({ type: "state", state: view() });
    last().onclose?.();
    vi.advanceTimersByTime(250);
    expect(wires.length).toBe(5);
    expect(links.slice(-3)).toEqual(["open", "waiting", "connecting"]);
  });

  it("gives up a connection on which nothing comes any more, and one that never opens", async () => {
    socket.open();
    last().open();
    const cut = socket.take();
    for (let i = 0; i < 30; i++) {
      vi.advanceTimersByTime(2_000);
      last().tell({ type: "pong", t: last().of("ping").at(-1)?.t, server: new Date().toISOString() });
    }
    expect([wires.length, links.at(-1)]).toEqual([1, "open"]); // a still page is no dead one
    vi.advanceTimersByTime(40_000);
    await expect(cut).rejects.toMatchObject({ code: "unreachable" });
    expect(wires[0]?.closed).toBe(true);
    expect([wires.length, links.at(-1)]).toEqual([2, "connecting"]);
    vi.advanceTimersByTime(40_000);
    expect(wires[1]?.closed).toBe(true);
    expect(wires.length).toBe(3);
  });

  it("answers a command when the server has done it, refused it, or is gone", async () => {
    socket.open();
    await expect(socket.take()).rejects.toThrow("not connected");
    last().open();
    const [took, held, lost] = [socket.take(60), socket.command({ kind: "reload" }), socket.giveBack()];
    const [take, command] = [last().of("take")[0], last().of("command")[0]];
    expect(take?.seconds).toBe(60);
    expect(command?.command).toEqual({ kind: "reload", url: "", tab: 0, accept: false, text: "" });
    last().tell({ type: "error", id: command?.id, error: { code: "not_in_control", message: "take control first", field: "" } });
    last().tell({ type: "done", id: take?.id });
    await took;
    await expect(held).rejects.toMatchObject({ code: "not_in_control", message: "take control first" });
    last().onclose?.();
    await expect(lost).rejects.toMatchObject({ code: "unreachable" });
    expect(faults).toEqual([]);
  });

  it("gives what was copied to the one who asked", async () => {
    socket.open();
    last().open();
    const copied = socket.copy();
    last().tell({ type: "clipboard", id: last().of("copy")[0]?.id, text: "words" });
    expect(await copied).toBe("words");
  });

  it("stays refused until it is asked to try again", () => {
    socket.open();
    last().open();
    last().tell({ type: "error", error: { code: "no_browser", message: "no", field: "" } });
    expect(links.at(-1)).toBe("refused");
    expect(faults).toEqual(["no_browser"]);
    vi.advanceTimersByTime(60_000);
    expect(wires.length).toBe(1);
    socket.retryNow();
    expect(wires.length).toBe(2);
  });

  it("ends with the browser, and not with an error of a later time", () => {
    socket.open();
    last().open();
    last().tell({ type: "state", state: view() });
    last().tell({ type: "error", error: { code: "invalid", message: "no", field: "" } });
    expect(links.at(-1)).toBe("open");
    last().tell({ type: "state", state: view({ ended: "the sandbox was released" }) });
    expect(links.at(-1)).toBe("ended");
    expect(states.at(-1)?.ended).toBe("the sandbox was released");
    last().onclose?.();
    vi.advanceTimersByTime(60_000);
    expect(wires.length).toBe(1);
  });

  it("pauses without a connection, and draws nothing of before", async () => {
    let drawn = (): void => undefined;
    draw = () => new Promise((done) => (drawn = done));
    socket.open();
    last().open();
    last().frame(1);
    await vi.advanceTimersByTimeAsync(0);
    socket.pause();
    drawn();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(last().closed).toBe(true);
    expect(last().of("got")).toEqual([]);
    expect(wires.length).toBe(1);
    socket.open();
    expect(wires.length).toBe(2);
    socket.close();
    socket.open();
    expect(wires.length).toBe(2);
  });

  it("connects with the size of the picture, and tells another one once", () => {
    socket.look({ width: 400, height: 300, dpr: 2 });
    socket.open();
    expect(last().size).toEqual({ width: 400, height: 300, dpr: 2 });
    last().open();
    expect(last().of("view")).toEqual([]);
    socket.look({ width: 500, height: 300, dpr: 2 });
    socket.look({ width: 500, height: 300, dpr: 2 });
    expect(last().of("view")).toEqual([{ type: "view", width: 500, height: 300, dpr: 2 }]);
  });

  it("measures the way there and back", () => {
    socket.open();
    last().open();
    const [ping] = last().of("ping");
    vi.advanceTimersByTime(40);
    last().tell({ type: "pong", t: ping?.t, server: new Date().toISOString() });
    expect(trips).toHaveLength(1);
    expect(trips[0]).toBeCloseTo(40);
    vi.advanceTimersByTime(2_000);
    expect(last().of("ping")).toHaveLength(2);
  });
});

describe("readFrame", () => {
  it("reads the head and the picture", () => {
    const read = readFrame(frame(7));
    expect(read?.head.seq).toBe(7);
    expect([...(read?.jpeg ?? [])]).toEqual([0xff, 0xd8, 7]);
  });

  it("takes nothing that is cut off", () => {
    expect(readFrame(new ArrayBuffer(3))).toBeNull();
    expect(readFrame(frame(7).slice(0, 10))).toBeNull();
    expect(readFrame(new ArrayBuffer(40))).toBeNull(); // a head of no length is no JSON
  });
});

describe("viewerOf", () => {
  it("keeps the name over a reload, and gives a new window another one", () => {
    const kept = new Map<string, string>();
    const storage = { getItem: (k: string) => kept.get(k) ?? null, setItem: (k: string, v: string) => void kept.set(k, v) };
    let n = 0;
    const make = (): string => `${++n}`;
    expect(viewerOf(storage, false, make)).toBe("window-1");
    expect(viewerOf(storage, true, make)).toBe("window-1");
    expect(viewerOf(storage, false, make)).toBe("window-2");
  });
});
