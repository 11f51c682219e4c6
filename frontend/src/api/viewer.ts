import type { BrowserSocket as Message, ErrorBody, RelayCommand, RelayFrame, RelayInput, RelayState } from "./types.gen";
import { wireTo } from "./wire";

/** What the connection to the view of a browser is doing. Refused is the server's no, ended the browser's end. */
export type ViewerLink = "paused" | "connecting" | "open" | "waiting" | "refused" | "ended" | "closed";

/** Size is how the picture is shown: in CSS pixels, and the screen's pixels per CSS pixel. */
export interface Size {
  width: number;
  height: number;
  dpr: number;
}

export interface ViewerHandlers {
  /** frame shows a picture. When what it returns is settled, the server sends the next but one. */
  frame(head: RelayFrame, jpeg: Uint8Array<ArrayBuffer>): Promise<void>;
  state(s: RelayState): void;
  link(l: ViewerLink): void;
  /** failed tells what the server reports that is the answer to no command. */
  failed(e: ErrorBody): void;
  /** delay tells how long a message takes to the server and back, and how far its clock is ahead of this one, in milliseconds. */
  delay(trip: number, ahead: number): void;
}

/** The part of WebSocket that is used, so that a test can stand in for it. */
export interface ViewerWire {
  readyState: number;
  send(data: string): void;
  close(): void;
  onopen: (() => void) | null;
  onclose: (() => void) | null;
  onmessage: ((m: { data: unknown }) => void) | null;
}

/** ViewerError is the server's no to a command, or a connection that broke before its answer came. */
export class ViewerError extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
    this.name = "ViewerError";
  }
}

interface Waiting {
  done(text: string): void;
  failed(e: ViewerError): void;
}

const OPEN = 1;
const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 5_000;
const PING_MS = 2_000;
/**
 * A connection that says nothing for so long after a ping is dead: nothing else tells of a network that is gone. It is
 * longer than the server gives one message to get through.
 */
const SILENCE_MS = 35_000;
const HEAD = 4;

/**
 * ViewerSocket is one view of a session's browser, and the hands of the one who looks. A connection that is lost is
 * made again; one that is paused costs the server and the browser nothing.
 */
export class ViewerSocket {
  private wire: ViewerWire | null = null;
  private size: Size = { width: 0, height: 0, dpr: 1 };
  private told = "";
  private heard = false;
  private drawing: Promise<void> = Promise.resolve();
  private readonly waiting = new Map<string, Waiting>();
  private next = 1;
  private delay = FIRST_DELAY_MS;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private beat: ReturnType<typeof setInterval> | undefined;
  private pinged = { t: 0, at: 0 };
  /** heardAt is when the connection gave its last sign of life. */
  private heardAt = 0;
  private state: ViewerLink = "paused";

  constructor(
    private readonly connect: (size: Size) => ViewerWire,
    private readonly handlers: ViewerHandlers,
  ) {}

  /** open connects, also after a refusal or an end: the browser may be there now. */
  open(): void {
    if (this.wire || this.state === "closed") return;
    clearTimeout(this.retry);
    this.become("connecting");
    this.heard = false;
    this.told = JSON.stringify(this.size);
    const wire = this.connect(this.size);
    this.wire = wire;
    this.heardAt = performance.now();
    this.pinged = { t: 0, at: 0 };
    this.beat = setInterval(() => this.ping(), PING_MS);
    wire.onopen = () => this.wire === wire && this.opened();
    wire.onmessage = (m) => this.wire === wire && this.receive(wire, m.data);
    wire.onclose = () => this.wire === wire && this.lost();
  }

  /** retryNow gives up waiting. */
  retryNow(): void {
    this.delay = FIRST_DELAY_MS;
    this.open();
  }

  /** pause lets go of the connection until open is called. */
  pause(): void {
    if (this.state === "closed" || this.state === "ended") return;
    this.drop();
    this.become("paused");
  }

  close(): void {
    this.drop();
    this.become("closed");
  }

  /** look tells the server how large the picture is now. */
  look(size: Size): void {
    this.size = size;
    const told = JSON.stringify(size);
    if (told === this.told || this.wire?.readyState !== OPEN) return;
    this.told = told;
    this.send({ type: "view", ...size });
  }

  /** input sends what was done on the picture. What is done without a connection is lost: its page may be another one later. */
  input(input: RelayInput): void {
    this.send({ type: "input", input });
  }

  take = (seconds?: number): Promise<void> => this.ask({ type: "take", seconds }).then(() => undefined);
  extend = (seconds?: number): Promise<void> => this.ask({ type: "extend", seconds }).then(() => undefined);
  giveBack = (): Promise<void> => this.ask({ type: "give_back" }).then(() => undefined);
  command = (command: Pick<RelayCommand, "kind"> & Partial<RelayCommand>): Promise<void> =>
    this.ask({ type: "command", command: { url: "", tab: 0, accept: false, text: "", ...command } }).then(() => undefined);
  /** copy returns what is selected in the page. */
  copy = (): Promise<string> => this.ask({ type: "copy" });

  private ask(message: Message): Promise<string> {
    if (this.wire?.readyState !== OPEN) return Promise.reject(new ViewerError("unreachable", "The browser's view is not connected."));
    const id = `c${this.next++}`;
    return new Promise((done, failed) => {
      this.waiting.set(id, { done, failed });
      this.send({ ...message, id });
    });
  }

  private send(message: Message): void {
    if (this.wire?.readyState === OPEN) this.wire.send(JSON.stringify(message));
  }

  private opened(): void {
    this.heardAt = performance.now();
    this.become("open");
    this.look(this.size);
    this.ping();
  }

  /** ping asks for a sign of life, and gives up a connection that gives none. In a hidden window it may come a minute late. */
  private ping(): void {
    const now = performance.now();
    if (this.wire?.readyState === OPEN && this.heardAt >= this.pinged.at) {
      this.pinged = { t: Date.now(), at: now };
      this.send({ type: "ping", t: this.pinged.t });
    } else if (now - Math.max(this.heardAt, this.pinged.at) > SILENCE_MS) this.lost();
  }

  private receive(wire: ViewerWire, data: unknown): void {
    this.heardAt = performance.now();
    if (data instanceof ArrayBuffer) return this.picture(wire, data);
    if (typeof data !== "string") return;
    let m: Message;
    try {
      m = JSON.parse(data) as Message;
    } catch {
      return;
    }
    switch (m.type) {
      case "state":
        if (m.state) this.stated(m.state);
        return;
      case "done":
        this.answer(m.id)?.done("");
        return;
      case "clipboard":
        this.answer(m.id)?.done(m.text ?? "");
        return;
      case "error":
        if (m.error) this.failed(m.error, m.id);
        return;
      case "pong":
        this.ponged(m);
    }
  }

  private stated(state: RelayState): void {
    this.heard = true;
    this.delay = FIRST_DELAY_MS;
    this.handlers.state(state);
    if (!state.ended) return;
    this.drop();
    this.become("ended");
  }

  /** failed takes an error. One that comes before anything else is the refusal of the whole view. */
  private failed(e: ErrorBody, id: string | undefined): void {
    const asked = id ? this.answer(id) : undefined;
    if (asked) return asked.failed(new ViewerError(e.code, e.message));
    this.handlers.failed(e);
    if (this.heard) return;
    this.drop();
    this.become("refused");
  }

  private answer(id: string | undefined): Waiting | undefined {
    const found = this.waiting.get(id ?? "");
    this.waiting.delete(id ?? "");
    return found;
  }

  private ponged(m: Message): void {
    if (m.t !== this.pinged.t || !m.server) return;
    const trip = performance.now() - this.pinged.at;
    this.handlers.delay(trip, Date.parse(m.server) - (this.pinged.t + trip / 2));
  }

  /** picture shows frames one after the other, and tells the server of each that it is on the screen. */
  private picture(wire: ViewerWire, data: ArrayBuffer): void {
    const frame = readFrame(data);
    if (!frame) return;
    this.heard = true;
    this.drawing = this.drawing
      .then(() => (this.wire === wire ? this.handlers.frame(frame.head, frame.jpeg) : undefined))
      .catch(() => undefined) // one that cannot be drawn is as good as shown: the next one comes
      .then(() => {
        if (this.wire === wire) this.send({ type: "got", seq: frame.head.seq });
      });
  }

  private lost(): void {
    this.drop();
    this.become("waiting");
    this.retry = setTimeout(() => this.open(), this.delay);
    this.delay = Math.min(this.delay * 2, MAX_DELAY_MS);
  }

  private drop(): void {
    clearTimeout(this.retry);
    clearInterval(this.beat);
    const wire = this.wire;
    this.wire = null;
    wire?.close();
    for (const w of this.waiting.values()) w.failed(new ViewerError("unreachable", "The connection was lost before the answer came; look at the page before you repeat it."));
    this.waiting.clear();
  }

  private become(l: ViewerLink): void {
    if (this.state === l || this.state === "closed") return;
    this.state = l;
    this.handlers.link(l);
  }
}

/** readFrame reads a binary message: the length of the head, big-endian, the head as JSON, and the JPEG. */
export function readFrame(data: ArrayBuffer): { head: RelayFrame; jpeg: Uint8Array<ArrayBuffer> } | null {
  if (data.byteLength < HEAD) return null;
  const length = new DataView(data).getUint32(0);
  if (length > data.byteLength - HEAD) return null;
  try {
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(data, HEAD, length))) as RelayFrame;
    return { head, jpeg: new Uint8Array(data, HEAD + length) };
  } catch {
    return null;
  }
}

/** viewerAt returns what opens a view of a session's browser on the server of this page. */
export function viewerAt(
  location: { protocol: string; host: string },
  token: string,
  session: string,
  viewer: string,
): (size: Size) => ViewerWire {
  return ({ width, height, dpr }) => {
    const query = new URLSearchParams({ viewer, width: String(width), height: String(height), dpr: String(dpr) });
    return wireTo(location, token, `/sessions/${encodeURIComponent(session)}/browser/socket?${query}`) as unknown as ViewerWire;
  };
}

const VIEWER = "glovebox.viewer";

/**
 * viewerOf returns the name under which this window takes control. It stays over a reload. A window that was opened
 * from this one starts with a copy of its storage, and must not pass for it.
 */
export function viewerOf(storage: Pick<Storage, "getItem" | "setItem">, isReload: boolean, make: () => string): string {
  const kept = isReload ? storage.getItem(VIEWER) : null;
  const viewer = kept ?? `window-${make()}`;
  storage.setItem(VIEWER, viewer);
  return viewer;
}
