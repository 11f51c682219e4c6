import type { Frame } from "./types.gen";
import { wireTo } from "./wire";

/** What the connection is doing. retryAt is in milliseconds since the epoch. */
export type Link =
  | { state: "connecting" }
  | { state: "open" }
  | { state: "waiting"; retryAt: number; heardAt: number }
  | { state: "closed" };

export interface SocketHandlers {
  /** frame gets every frame once: an event that was seen before a reconnect is not repeated. */
  frame(f: Frame): void;
  /** link is told whenever the connection changes. */
  link(l: Link): void;
  /** renewed is told when another server, or another version of it, answers than before. */
  renewed(what: "instance" | "version"): void;
}

/** The part of WebSocket that is used, so that a test can stand in for it. */
export interface Wire {
  readyState: number;
  send(data: string): void;
  close(): void;
  onopen: (() => void) | null;
  onclose: (() => void) | null;
  onerror: (() => void) | null;
  onmessage: ((m: { data: unknown }) => void) | null;
}

const OPEN = 1;
const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 5_000;
/** The server pings every 10 s; this long without any frame means that the connection is dead. */
const SILENCE_MS = 25_000;

/**
 * EventSocket keeps one connection to the server's events, and every
 * subscription on it across reconnects: each is resumed after the last seq that
 * came.
 */
export class EventSocket {
  private wire: Wire | null = null;
  private readonly after = new Map<string, number>();
  private readonly dirs = new Map<string, string[]>();
  private containers = false;
  private delay = FIRST_DELAY_MS;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private silence: ReturnType<typeof setTimeout> | undefined;
  private heardAt = Date.now();
  private instance = "";
  private version = "";
  private ended = false;

  constructor(
    private readonly connect: () => Wire,
    private readonly handlers: SocketHandlers,
  ) {}

  open(): void {
    if (this.wire || this.ended) return;
    clearTimeout(this.retry);
    this.handlers.link({ state: "connecting" });
    const wire = this.connect();
    this.wire = wire;
    wire.onmessage = (m) => this.wire === wire && this.receive(m.data);
    wire.onclose = () => this.wire === wire && this.lost();
    wire.onerror = null; // a close always follows
    this.watch();
  }

  /** retryNow gives up waiting. */
  retryNow(): void {
    this.delay = FIRST_DELAY_MS;
    if (!this.wire) this.open();
  }

  subscribe(sessionID: string, after: number): void {
    this.after.set(sessionID, after);
    this.tell({ type: "subscribe", session_id: sessionID, after });
  }

  unsubscribe(sessionID: string): void {
    if (this.after.delete(sessionID)) this.tell({ type: "unsubscribe", session_id: sessionID });
  }

  /** watchFiles replaces the directories of a session that are watched; none ends it. */
  watchFiles(sessionID: string, dirs: string[]): void {
    if (dirs.length === 0) this.dirs.delete(sessionID);
    else this.dirs.set(sessionID, dirs);
    this.tell({ type: "watch_files", session_id: sessionID, dirs });
  }

  /** watchContainers asks for the engine's containers whenever they change, or no more. */
  watchContainers(on: boolean): void {
    if (this.containers === on) return;
    this.containers = on;
    this.tell({ type: on ? "watch_containers" : "unwatch_containers" });
  }

  close(): void {
    this.ended = true;
    clearTimeout(this.retry);
    clearTimeout(this.silence);
    const wire = this.wire;
    this.wire = null;
    wire?.close();
    this.handlers.link({ state: "closed" });
  }

  /** tell sends a frame once hello has come; before it, hello itself sends the subscriptions. */
  private tell(f: Frame): void {
    if (this.greeted && this.wire?.readyState === OPEN) this.wire.send(JSON.stringify(f));
  }

  private greeted = false;

  private receive(data: unknown): void {
    if (typeof data !== "string") return;
    let message: Frame | Frame[];
    try {
      message = JSON.parse(data) as Frame | Frame[];
    } catch {
      return;
    }
    this.heardAt = Date.now();
    this.watch();
    for (const f of Array.isArray(message) ? message : [message]) {
      if (f.type === "hello") this.hello(f);
      if (f.type === "event" && !this.advance(f)) continue;
      this.handlers.frame(f);
    }
  }

  private hello(f: Frame): void {
    this.delay = FIRST_DELAY_MS;
    const was = { instance: this.instance, version: this.version };
    this.instance = f.instance ?? "";
    this.version = f.version ?? "";
    if (was.instance && was.instance !== this.instance) {
      for (const id of this.after.keys()) this.after.set(id, 0); // another store: its seqs mean nothing here
      this.handlers.renewed("instance");
    } else if (was.version && was.version !== this.version) {
      this.handlers.renewed("version");
    }
    this.greeted = true;
    this.handlers.link({ state: "open" });
    for (const [id, after] of this.after) this.tell({ type: "subscribe", session_id: id, after });
    for (const [id, dirs] of this.dirs) this.tell({ type: "watch_files", session_id: id, dirs });
    if (this.containers) this.tell({ type: "watch_containers" });
  }

  /** advance reports whether an event is new to its subscription. */
  private advance(f: Frame): boolean {
    const id = f.session_id ?? f.event?.root_task_id ?? "";
    const last = this.after.get(id);
    const seq = f.event?.seq ?? f.seq ?? 0;
    if (last === undefined || seq <= last) return false;
    this.after.set(id, seq);
    return true;
  }

  private watch(): void {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.lost(), SILENCE_MS);
  }

  private lost(): void {
    const wire = this.wire;
    if (!wire) return;
    this.wire = null;
    this.greeted = false;
    clearTimeout(this.silence);
    wire.close();
    const delay = this.delay;
    this.delay = Math.min(this.delay * 2, MAX_DELAY_MS);
    this.retry = setTimeout(() => this.open(), delay);
    this.handlers.link({ state: "waiting", retryAt: Date.now() + delay, heardAt: this.heardAt });
  }
}

/** connectTo returns what makes one WebSocket to the server of this page. */
export function connectTo(location: { protocol: string; host: string }, token: string): () => Wire {
  return () => wireTo(location, token, "/events") as unknown as Wire;
}
