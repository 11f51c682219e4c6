import type { ErrorBody, Terminal, TerminalSocket as Message } from "./types.gen";
import { wireTo } from "./wire";

/** What the connection to a terminal is doing. */
export type TerminalLink = "connecting" | "open" | "waiting" | "closed";

export interface TerminalHandlers {
  /** data gets each byte of the output once, in order. It calls written when the bytes are on the screen. */
  data(bytes: Uint8Array, written: () => void): void;
  /** gap tells that so many bytes before the next data are not shown: they were not kept, or came too fast. */
  gap(bytes: number): void;
  /** terminal tells how the terminal is now; isFirst says that it is the greeting of a connection. */
  terminal(t: Terminal, isFirst: boolean): void;
  link(l: TerminalLink): void;
  /** failed tells what the server reports. */
  failed(e: ErrorBody): void;
}

/** The part of WebSocket that is used, so that a test can stand in for it. */
export interface TerminalWire {
  readyState: number;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  close(): void;
  onopen: (() => void) | null;
  onclose: (() => void) | null;
  onmessage: ((m: { data: unknown }) => void) | null;
}

const OPEN = 1;
const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 5_000;
const HEADER = 8;
/** With more than this waiting for the screen, output is left out until the screen has caught up … */
const BEHIND = 2 << 20;
/** … to this, and then goes on with the last bytes, which fill the scrollback. */
const CAUGHT_UP = 64 << 10;
const LAST = 512 << 10;
/** What is typed while there is no connection is kept as far as this, and sent on the next. */
const TYPED = 4096;

/**
 * TerminalSocket is one view of a terminal. The terminal lives on the server:
 * after a lost connection the view goes on at the byte where it was, and it says
 * so when bytes between were not kept.
 *
 * A flood of output does not stop the page: what the screen cannot take is left
 * out, while input goes on, and the view is opened again near the end.
 */
export class TerminalSocket {
  /** offset is the end of what was handed to data. */
  offset = 0;
  /** replayed is the end of what was there when the view connected: what is older answers no questions. */
  replayed = 0;

  private wire: TerminalWire | null = null;
  private terminal: Terminal | null = null;
  private greeted = false;
  private unwritten = 0;
  private skipped = 0; // the end of the last output that was left out, or 0
  private typed: Uint8Array<ArrayBuffer>[] = [];
  private size: { cols: number; rows: number } | null = null;
  private delay = FIRST_DELAY_MS;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private ended = false;

  constructor(
    private readonly connect: (after: number) => TerminalWire,
    private readonly handlers: TerminalHandlers,
  ) {}

  open(): void {
    if (this.wire || this.ended) return;
    clearTimeout(this.retry);
    this.handlers.link("connecting");
    this.greeted = false;
    const wire = this.connect(this.offset);
    this.wire = wire;
    wire.onopen = () => this.wire === wire && this.opened();
    wire.onmessage = (m) => this.wire === wire && this.receive(m.data);
    wire.onclose = () => this.wire === wire && this.lost();
  }

  /** retryNow gives up waiting. */
  retryNow(): void {
    this.delay = FIRST_DELAY_MS;
    this.open();
  }

  input(text: string): void {
    this.inputBytes(new TextEncoder().encode(text));
  }

  inputBytes(bytes: Uint8Array<ArrayBuffer>): void {
    if (this.wire?.readyState === OPEN) {
      this.wire.send(bytes);
      return;
    }
    const waiting = this.typed.reduce((n, b) => n + b.length, 0);
    if (!this.ended && waiting + bytes.length <= TYPED) this.typed.push(bytes);
  }

  resize(cols: number, rows: number): void {
    if (this.size?.cols === cols && this.size.rows === rows) return;
    this.size = { cols, rows };
    this.tellSize();
  }

  close(): void {
    if (this.ended) return;
    this.ended = true;
    clearTimeout(this.retry);
    const wire = this.wire;
    this.wire = null;
    wire?.close();
    this.handlers.link("closed");
  }

  private opened(): void {
    this.delay = FIRST_DELAY_MS;
    this.handlers.link("open");
    this.tellSize();
    for (const bytes of this.typed) this.wire?.send(bytes);
    this.typed = [];
  }

  private tellSize(): void {
    const message: Message = { type: "resize", ...this.size };
    if (this.size && this.wire?.readyState === OPEN) this.wire.send(JSON.stringify(message));
  }

  private receive(data: unknown): void {
    if (data instanceof ArrayBuffer) {
      if (data.byteLength > HEADER) this.output(Number(new DataView(data).getBigUint64(0)), new Uint8Array(data, HEADER));
      return;
    }
    if (typeof data !== "string") return;
    let m: Message;
    try {
      m = JSON.parse(data) as Message;
    } catch {
      return;
    }
    if (m.type === "terminal" && m.terminal) {
      const isFirst = !this.greeted;
      this.greeted = true;
      if (isFirst) this.replayed = m.terminal.end;
      else if (this.size) this.size = { cols: m.terminal.cols, rows: m.terminal.rows };
      this.terminal = m.terminal;
      this.handlers.terminal(m.terminal, isFirst);
    }
    if (m.type === "error" && m.error) {
      this.handlers.failed(m.error);
      if (m.error.code === "not_found") this.close();
    }
  }

  private output(at: number, bytes: Uint8Array): void {
    const end = at + bytes.length;
    if (end <= this.offset) return; // seen before
    if (this.skipped || this.unwritten > BEHIND) {
      this.skipped = end;
      return;
    }
    if (at > this.offset) this.handlers.gap(at - this.offset);
    const fresh = at < this.offset ? bytes.subarray(this.offset - at) : bytes;
    this.offset = end;
    this.unwritten += fresh.length;
    this.handlers.data(fresh, () => {
      this.unwritten -= fresh.length;
      if (this.skipped && this.unwritten <= CAUGHT_UP) this.skip();
    });
  }

  /** skip goes on with the last bytes of what was left out. */
  private skip(): void {
    const after = Math.max(this.offset, this.skipped - LAST);
    this.skipped = 0;
    if (this.ended) return;
    if (after > this.offset) this.handlers.gap(after - this.offset);
    this.offset = after;
    const wire = this.wire;
    this.wire = null;
    wire?.close();
    this.open();
  }

  private lost(): void {
    this.wire = null;
    if (this.ended) return;
    if (this.skipped) return; // skip connects again once the screen has caught up
    if (this.terminal?.ended_at && this.offset >= this.terminal.end) {
      this.close();
      return;
    }
    this.handlers.link("waiting");
    this.retry = setTimeout(() => this.open(), this.delay);
    this.delay = Math.min(this.delay * 2, MAX_DELAY_MS);
  }
}

/** terminalAt returns what opens a view of a terminal on the server of this page. */
export function terminalAt(
  location: { protocol: string; host: string },
  token: string,
  session: string,
  terminal: string,
): (after: number) => TerminalWire {
  const path = `/sessions/${encodeURIComponent(session)}/terminals/${encodeURIComponent(terminal)}/socket`;
  return (after) => wireTo(location, token, `${path}?after=${after}`) as unknown as TerminalWire;
}
