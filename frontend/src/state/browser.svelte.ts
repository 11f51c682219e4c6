import { ApiError, type Client, messageOf } from "../api/client";
import type { BrowserInfo, ErrorBody, FileInfo, RelayFrame, RelayInput, RelayState, TabsDialog, TabsInfo, TabsNotice } from "../api/types.gen";
import { ViewerError, ViewerSocket, type Size, type ViewerLink, type ViewerWire } from "../api/viewer";

/** What is asked of the server beside the socket. */
export type BrowserServer = Pick<Client, "browser" | "startBrowser" | "stopBrowser" | "files">;

/** How many notices are kept; the oldest go first. */
const KEPT = 100;
/** Pictures of so long a time are counted for the rate. */
const RATE_MS = 2_000;
/** How much a new measurement of the delay counts. */
const SMOOTH = 0.25;

/** Hold is who has the browser. */
export type Hold = "me" | "other" | "agent";

/** Paint draws a picture. */
export type Paint = (jpeg: Uint8Array<ArrayBuffer>) => Promise<void>;

/** Browser is one session's browser as this window sees it. It is changed by what the server tells and by its methods alone. */
export class Browser {
  /** info is what was read last of whether there is a browser; null until then. */
  info = $state.raw<BrowserInfo | null>(null);
  /** fault says why info could not be read. */
  fault = $state.raw<{ code: string; message: string } | null>(null);
  /** view is what the socket told last. */
  view = $state.raw<RelayState | null>(null);
  link = $state<ViewerLink>("paused");
  /** refusal is why the server gives no view, or the last thing that it refused. */
  refusal = $state.raw<ErrorBody | null>(null);
  notices = $state.raw<TabsNotice[]>([]);
  /** seen is the number of the newest notice that the person was shown in the list. */
  seen = $state(0);
  /** head is of the picture that is on the screen. */
  head = $state.raw<RelayFrame | null>(null);
  /** drawnAt is when it was drawn, by this machine's clock. */
  drawnAt = $state(0);
  /** trip is how long a message takes to the server and back, in milliseconds. */
  trip = $state(0);
  /** late is how old a picture is when it is drawn, in milliseconds: since it came to the server. */
  late = $state(0);
  /** ahead is how far the server's clock is ahead of this one, in milliseconds. */
  ahead = $state(0);
  starting = $state(false);
  taking = $state(false);
  /** gaveBack says that the person gave control back by themselves, the last time that they had it. */
  gaveBack = false;
  /** files are the downloads; null until they were read. */
  files = $state.raw<FileInfo[] | null>(null);

  private readonly socket: ViewerSocket;
  private readonly drawn: number[] = [];
  private last: Uint8Array<ArrayBuffer> | null = null;
  private paint: Paint | null = null;
  private isMeasured = false;
  /** noticed counts notices. Their own numbers begin anew with each browser. */
  private noticed = 0;
  /** isKept says that the next picture may be an old one, which a view begins with. */
  private isKept = true;

  constructor(
    private readonly server: BrowserServer,
    private readonly session: string,
    readonly viewer: string,
    connect: (size: Size) => ViewerWire,
  ) {
    this.socket = new ViewerSocket(connect, {
      frame: (head, jpeg) => this.draw(head, jpeg),
      state: (s) => this.apply(s),
      link: (l) => this.linked(l),
      failed: (e) => this.failed(e),
      delay: (trip, ahead) => {
        this.trip = trip;
        this.ahead = ahead;
      },
    });
  }

  get tabs(): TabsInfo[] {
    return this.view?.tabs ?? [];
  }

  get tab(): TabsInfo | undefined {
    return this.tabs.find((t) => t.number === this.view?.active);
  }

  get dialog(): TabsDialog | null {
    return this.view?.dialog ?? null;
  }

  get hold(): Hold {
    const holder = this.view?.control.viewer;
    return !holder ? "agent" : holder === this.viewer ? "me" : "other";
  }

  /** mine says that what is done here reaches the page. */
  get mine(): boolean {
    return this.hold === "me" && this.link === "open";
  }

  get news(): number {
    return this.notices.filter((n) => n.seq > this.seen).length;
  }

  /** left returns how long the one who has control may hold it yet, in milliseconds. */
  left(now: number): number {
    const until = this.view?.control.until;
    return until ? Math.max(0, Date.parse(until) - (now + this.ahead)) : 0;
  }

  /** rate returns the pictures per second of the last two seconds. */
  rate(now: number): number {
    while (this.drawn.length > 0 && (this.drawn[0] ?? 0) < now - RATE_MS) this.drawn.shift();
    return this.drawn.length / (RATE_MS / 1000);
  }

  // What the screen asks for.

  /** read asks whether there is a browser. */
  async read(): Promise<void> {
    try {
      this.info = await this.server.browser(this.session);
      this.fault = null;
    } catch (err) {
      this.fault = { code: err instanceof ApiError ? err.code : "", message: messageOf(err) };
    }
  }

  /** start starts the browser and looks at it. */
  async start(): Promise<void> {
    if (this.starting) return;
    this.starting = true;
    try {
      await this.server.startBrowser(this.session);
      this.refusal = null;
      if (this.info) this.info = { ...this.info, state: "starting", error: "" };
    } catch (err) {
      this.refusal = { code: err instanceof ApiError ? err.code : "", message: messageOf(err), field: "" };
    } finally {
      this.starting = false;
    }
  }

  /** stop ends the browser with all its pages. */
  async stop(): Promise<void> {
    try {
      await this.server.stopBrowser(this.session);
    } catch (err) {
      this.refusal = { code: err instanceof ApiError ? err.code : "", message: messageOf(err), field: "" };
    }
    await this.read();
  }

  /** look opens the view, or goes on with it. */
  look(): void {
    this.socket.open();
  }

  retry(): void {
    this.refusal = null;
    this.socket.retryNow();
  }

  pause(): void {
    this.socket.pause();
  }

  /** leave is pause for a panel that goes away: it gives back the control that nobody would be left to give back. */
  leave(): void {
    if (this.mine) void this.socket.giveBack().catch(() => undefined); // nobody waits for the answer
    this.pause();
  }

  /** resize tells how large the picture is shown. */
  resize(size: Size): void {
    this.isMeasured = true;
    this.socket.look(size);
  }

  /** expect is resize before there is a picture to be measured. */
  expect(size: Size): void {
    if (!this.isMeasured) this.socket.look(size);
  }

  /** onto draws the pictures with paint from now on, beginning with the last one, until what it returns is called. */
  onto(paint: Paint): () => void {
    this.paint = paint;
    if (this.last) void paint(this.last).catch(() => undefined); // what was drawn before can be drawn again
    return () => {
      if (this.paint === paint) this.paint = null;
    };
  }

  input(input: RelayInput): void {
    this.socket.input(input);
  }

  async take(): Promise<boolean> {
    if (this.taking) return false;
    this.taking = true;
    this.gaveBack = false;
    const taken = await this.attempt(() => this.socket.take());
    this.taking = false;
    return taken;
  }

  extend = (seconds?: number): Promise<boolean> => this.attempt(() => this.socket.extend(seconds));
  giveBack = (): Promise<boolean> => {
    this.gaveBack = true;
    return this.attempt(() => this.socket.giveBack());
  };
  navigate = (url: string): Promise<boolean> => this.attempt(() => this.socket.command({ kind: "navigate", url }));
  go = (kind: "back" | "forward" | "reload" | "open"): Promise<boolean> => this.attempt(() => this.socket.command({ kind }));
  show = (tab: number): Promise<boolean> => this.attempt(() => this.socket.command({ kind: "switch", tab }));
  closeTab = (tab: number): Promise<boolean> => this.attempt(() => this.socket.command({ kind: "close", tab }));
  answer = (accept: boolean, text: string): Promise<boolean> => this.attempt(() => this.socket.command({ kind: "answer", accept, text }));

  /** copied returns what is selected in the page; "" when nothing is, or it is not to be had. */
  async copied(): Promise<string> {
    let text = "";
    await this.attempt(async () => {
      text = await this.socket.copy();
    });
    return text;
  }

  /** list reads what the browser has downloaded. */
  async list(): Promise<void> {
    const dir = this.info?.downloads;
    if (!dir) return;
    try {
      const listing = await this.server.files(this.session, dir);
      this.files = (listing.entries ?? []).filter((f) => f.kind === "file").toSorted((a, b) => (a.mod_time < b.mod_time ? 1 : -1));
    } catch {
      this.files = []; // the folder comes with the first download
    }
  }

  /** acknowledge notes that all notices were shown. */
  acknowledge(): void {
    this.seen = this.notices.at(-1)?.seq ?? this.seen;
  }

  dismiss(): void {
    this.refusal = null;
  }

  private async attempt(act: () => Promise<unknown>): Promise<boolean> {
    this.refusal = null; // what was said of the last one
    try {
      await act();
      return true;
    } catch (err) {
      const code = err instanceof ViewerError ? err.code : "";
      // The server's words for it are meant for the agent.
      const message = code === "browser_held" ? "Another window has control. Give it back there, or wait until its time is over." : messageOf(err);
      this.refusal = { code, message, field: "" };
      return false;
    }
  }

  private linked(l: ViewerLink): void {
    this.link = l;
    if (l === "open") {
      this.refusal = null;
      this.isKept = true;
    }
    // Who has control is known as long as there is a view, or one that is being made again.
    if (l !== "open" && l !== "connecting" && l !== "waiting") this.forget();
    if (l === "ended" || l === "refused") void this.read();
  }

  /** forget is for a view that tells no more who has control. */
  private forget(): void {
    if (this.view?.control.viewer) this.view = { ...this.view, control: { look: true } };
  }

  private apply(s: RelayState): void {
    const fresh = (s.notices ?? []).map((n) => ({ ...n, seq: ++this.noticed })); // each is told once
    if (s.control.viewer !== this.view?.control.viewer) this.refusal = null; // it was of another time
    this.view = s;
    if (fresh.length === 0) return;
    this.notices = [...this.notices, ...fresh].slice(-KEPT);
    if (fresh.some((n) => n.kind === "download")) void this.list();
  }

  private failed(e: ErrorBody): void {
    // An input that crossed with the end of control on its way; who has it is shown anyway.
    if (e.code !== "not_in_control") this.refusal = e;
  }

  private async draw(head: RelayFrame, jpeg: Uint8Array<ArrayBuffer>): Promise<void> {
    this.last = jpeg;
    await this.paint?.(jpeg);
    const now = Date.now();
    this.head = head;
    this.drawnAt = now;
    this.drawn.push(now);
    const late = Math.max(0, now + this.ahead - Date.parse(head.at));
    if (!this.isKept) this.late = this.late === 0 ? late : this.late + (late - this.late) * SMOOTH;
    this.isKept = false;
  }
}

const kept = new WeakMap<BrowserServer, Map<string, Browser>>();

/** browserOf returns a session's browser, the same for every panel that asks. */
export function browserOf(server: BrowserServer, session: string, viewer: string, connect: (size: Size) => ViewerWire): Browser {
  const all = kept.get(server) ?? new Map<string, Browser>();
  kept.set(server, all);
  const browser = all.get(session) ?? new Browser(server, session, viewer, connect);
  all.set(session, browser);
  return browser;
}

/** addressOf is what a tab's address line says: nothing for an empty page, and what was asked for where that could not be opened. */
export function addressOf(tab: Pick<TabsInfo, "url" | "failed"> | undefined): string {
  const url = tab?.failed || tab?.url || "";
  return url === "about:blank" ? "" : url;
}

/** titleOfTab is what a tab says. */
export function titleOfTab(tab: Pick<TabsInfo, "title" | "url" | "failed" | "crashed">): string {
  if (tab.crashed) return "Crashed";
  return tab.title || addressOf(tab).replace(/^https?:\/\//, "") || "New tab";
}

const COPY = "glovebox.browser.copy";

/** Consent is whether what is copied in a page goes to this machine's clipboard without a question. */
export class Consent {
  copies = $state(false);

  constructor(private readonly storage: Pick<Storage, "getItem" | "setItem">) {
    this.copies = storage.getItem(COPY) === "on";
  }

  set(on: boolean): void {
    this.copies = on;
    this.storage.setItem(COPY, on ? "on" : "off");
  }
}
