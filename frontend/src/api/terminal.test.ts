import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { TerminalSocket, type TerminalLink, type TerminalWire } from "./terminal";
import type { Terminal } from "./types.gen";

class FakeWire implements TerminalWire {
  readyState = 0;
  sent: (string | Uint8Array)[] = [];
  closed = false;
  onopen: (() => void) | null = null;
  onclose: (() => void) | null = null;
  onmessage: ((m: { data: unknown }) => void) | null = null;
  constructor(readonly after: number) {}
  send(data: string | Uint8Array): void {
    this.sent.push(data);
  }
  close(): void {
    this.closed = true;
  }
  open(): void {
    this.readyState = 1;
    this.onopen?.();
  }
  output(offset: number, text: string | Uint8Array): void {
    const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
    const frame = new Uint8Array(8 + bytes.length);
    new DataView(frame.buffer).setBigUint64(0, BigInt(offset));
    frame.set(bytes, 8);
    this.onmessage?.({ data: frame.buffer });
  }
  tell(m: unknown): void {
    this.onmessage?.({ data: JSON.stringify(m) });
  }
}

const terminal = (over: Partial<Terminal>): Terminal => ({
  id: "t1", argv: ["sh"], dir: "/workspace", pid: 7, cols: 80, rows: 24, started_at: "2026-01-01T00:00:00Z",
  ended_at: null, exit_code: 0, signal: "", start: 0, end: 0, views: 1, ...over,
});

describe("TerminalSocket", () => {
  let wires: FakeWire[];
  let shown: string;
  let gaps: number[];
  let links: TerminalLink[];
  let held: (() => void)[];
  let slow: boolean;
  let socket: TerminalSocket;
  const last = (): FakeWire => {
    const wire = wires.at(-1);
    if (!wire) throw new Error("nothing was connected");
    return wire;
  };

  beforeEach(() => {
    vi.useFakeTimers();
    wires = [];
    shown = "";
    gaps = [];
    links = [];
    held = [];
    slow = false;
    socket = new TerminalSocket(
      (after) => {
        wires.push(new FakeWire(after));
        return last();
      },
      {
        data: (bytes, written) => {
          shown += new TextDecoder().decode(bytes);
          if (slow) held.push(written);
          else written();
        },
        gap: (n) => gaps.push(n),
        terminal: () => undefined,
        link: (l) => links.push(l),
        failed: () => undefined,
      },
    );
    socket.open();
    last().open();
  });
  afterEach(() => {
    socket.close();
    vi.useRealTimers();
  });

  it("goes on after a lost connection at the byte where it was", () => {
    last().output(0, "hello ");
    last().onclose?.();
    vi.advanceTimersByTime(250);
    last().open();
    expect(last().after).toBe(6);
    last().output(6, "world");
    expect(shown).toBe("hello world");
    expect(gaps).toEqual([]);
  });

  it("shows nothing twice", () => {
    last().output(0, "abc");
    last().output(0, "abc");
    last().output(1, "bcde");
    expect(shown).toBe("abcde");
  });

  it("says how much was not kept", () => {
    last().output(0, "abc");
    last().output(10, "xyz");
    expect(shown).toBe("abcxyz");
    expect(gaps).toEqual([7]);
    expect(socket.offset).toBe(13);
  });

  it("reads offsets beyond 32 bits", () => {
    last().output(5_000_000_000, "x");
    expect(socket.offset).toBe(5_000_000_001);
  });

  it("leaves out what the screen cannot take, and goes on near the end", () => {
    slow = true;
    const chunk = new Uint8Array(1 << 20);
    for (let i = 0; i < 8; i++) last().output(i << 20, chunk);
    expect(socket.offset).toBe(3 << 20);
    socket.input("\x03"); // what is typed still goes
    expect(last().sent).toEqual([new TextEncoder().encode("\x03")]);
    for (const written of held) written();
    expect(wires).toHaveLength(2);
    expect(wires[0]?.closed).toBe(true);
    expect(last().after).toBe((8 << 20) - (512 << 10));
    expect(gaps).toEqual([(8 << 20) - (512 << 10) - (3 << 20)]);
  });

  it("comes back from a flood that broke the connection off", () => {
    slow = true;
    const chunk = new Uint8Array(1 << 20);
    for (let i = 0; i < 5; i++) last().output(i << 20, chunk);
    last().onclose?.();
    for (const written of held) written();
    expect(last().after).toBe((5 << 20) - (512 << 10));
  });

  it("stays closed when the terminal has ended and all was shown", () => {
    last().output(0, "bye");
    last().tell({ type: "terminal", terminal: terminal({ end: 3, ended_at: "2026-01-01T00:00:01Z" }) });
    last().onclose?.();
    vi.advanceTimersByTime(60_000);
    expect(wires).toHaveLength(1);
    expect(links.at(-1)).toBe("closed");
  });

  it("connects again when the terminal has ended and something is missing", () => {
    last().tell({ type: "terminal", terminal: terminal({ end: 3, ended_at: "2026-01-01T00:00:01Z" }) });
    last().onclose?.();
    vi.advanceTimersByTime(250);
    expect(wires).toHaveLength(2);
  });

  it("keeps what was typed, and the size, for the next connection", () => {
    socket.resize(100, 30);
    last().onclose?.();
    socket.input("ls\r");
    socket.resize(101, 30);
    vi.advanceTimersByTime(250);
    last().open();
    expect(last().sent).toEqual(['{"type":"resize","cols":101,"rows":30}', new TextEncoder().encode("ls\r")]);
  });

  it("does not ask again for a terminal that is not there", () => {
    last().tell({ type: "error", error: { code: "not_found", message: "no such terminal", field: "" } });
    vi.advanceTimersByTime(60_000);
    expect(wires).toHaveLength(1);
  });
});
