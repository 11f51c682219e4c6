import { MediaQuery } from "svelte/reactivity";
import { ApiError, Client, messageOf, type Verb } from "../api/client";
import { randomName } from "../api/name";
import { connectTo, EventSocket, type Link } from "../api/socket";
import { terminalAt, type TerminalWire } from "../api/terminal";
import { viewerAt, viewerOf } from "../api/viewer";
import { forgetToken, keepToken, takeToken, tokenOf } from "../api/token";
import type { About, AnswerRequest, Container, EngineContainer, Frame, Logs, OpenRequest, Session, Wall } from "../api/types.gen";
import { oneLine, titleOf } from "../text/visible";
import { browserOf, Consent, type Browser } from "./browser.svelte";
import { Clock } from "./clock.svelte";
import { Containers } from "./containers.svelte";
import { Health } from "./doctor.svelte";
import { chooseImage } from "./draft.svelte";
import { newest } from "./engine";
import { findImage, Images, TINY } from "./images.svelte";
import { Keys } from "./keys.svelte";
import { surround } from "./notify.svelte";
import { Prefs } from "./prefs.svelte";
import { Router, type Route } from "./route.svelte";
import { Timeline } from "./timeline.svelte";
import { Toasts } from "./toasts.svelte";
import { Unsent } from "./unsent.svelte";

/** The first frame after a pause is shown at once; those that follow are gathered so long, for one rendering. */
const GATHER_MS = 30;
/** How many timelines stay in memory after their page was left. */
const KEPT_TIMELINES = 8;

/** Below this width a panel covers the page, so none is opened along with a session. */
const ROOM_FOR_DOCK = "min-width: 861px";
/** Above these widths the list stands beside the page: without a panel, and with one. */
const ROOM_FOR_LIST = "min-width: 721px";
const ROOM_FOR_BOTH = "min-width: 1181px";

/** Question asks before something that cannot be taken back. */
export interface Question {
  title: string;
  text: string;
  /** facts name what is lost and what is kept. */
  facts: { label: string; text: string }[];
  verb: string;
  run: () => void;
}

/** Sheet is what lies over the page for one sandbox or container. */
export type Sheet =
  | { show: "logs"; title: string; read: (tail: number) => Promise<Logs> }
  | { show: "snapshot" | "fork"; id: string };

/** DEMO_GOAL is what the demo is asked to do, and what a session of it is known by. */
export const DEMO_GOAL = "Show me what you can do in here.";

/** How long a sandbox that was just asked for is waited for, by who wants to go on in it. */
const SETTLED_MS = 120_000;

/** App is all that the page knows. It is changed by frames and by its methods alone. */
export class App {
  readonly clock = new Clock();
  readonly router = new Router();
  readonly toasts = new Toasts();
  readonly prefs = new Prefs(localStorage);
  readonly consent = new Consent(localStorage);
  readonly keys = new Keys();
  readonly unsent = new Unsent();
  readonly health = new Health(localStorage);
  readonly images = new Images(() => this.client);
  readonly containers = new Containers(() => this.client);

  /** authorized is false when there is no token, or the server refuses it. */
  authorized = $state(true);
  link = $state.raw<Link>({ state: "connecting" });
  about = $state.raw<About | null>(null);
  sessions = $state.raw<Session[] | null>(null);
  timeline = $state.raw<Timeline | null>(null);
  /** stopping is the session whose turn is being stopped. */
  stopping = $state("");
  demo = $state<"" | "image" | "opening">("");
  /** demoFault says why the demo did not start. */
  demoFault = $state("");
  question = $state.raw<Question | null>(null);
  /** renaming is the session whose title is being written, and where. */
  renaming = $state.raw<{ id: string; at: "list" | "header" } | null>(null);
  /** overlay is what lies over the page. */
  overlay = $state<"" | "palette" | "help">("");
  sheet = $state.raw<Sheet | null>(null);

  /** client speaks to the server with the token of this tab; a new token makes a new client. */
  client: Client;
  /** token is what a socket carries as its subprotocol. */
  token: string;
  /** viewer is the name under which this window takes control of browsers. */
  private readonly viewer = viewerOf(sessionStorage, isReload(), randomName);
  private readonly room = { dock: new MediaQuery(ROOM_FOR_DOCK), list: new MediaQuery(ROOM_FOR_LIST), both: new MediaQuery(ROOM_FOR_BOTH) };
  private socket: EventSocket | null = null;
  private readonly listeners = new Set<(f: Frame) => void>();
  private readonly timelines = new Map<string, Timeline>();
  private readonly calling = surround({
    looking: (id) => !document.hidden && document.hasFocus() && this.router.id === id,
    show: (n) => this.call(n.title, n.body, n.id, n.key),
  });
  private readonly settling = new Set<() => void>();
  private lookers = 0;
  private watched = "";
  private gathered: Frame[] = [];
  private flushedAt = 0;
  private gathering: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    this.token = takeToken(window);
    this.client = new Client(this.token);
  }

  /** start connects, and returns what ends it. */
  start(): () => void {
    this.prefs.show();
    const stops = [this.clock.start(), this.router.start(this.retoken), this.keys.start(), this.calling.stop];
    if (this.token) this.connect();
    else this.authorized = false;
    return () => {
      for (const stop of stops) stop();
      this.socket?.close();
      clearTimeout(this.gathering);
    };
  }

  /** retoken takes the token of an address that was pasted into the open page, and wipes it from there. */
  private readonly retoken = (): void => {
    const token = takeToken(window);
    if (token && (token !== this.token || !this.authorized)) this.signIn(token);
  };

  /** signIn takes a token, or the URL that holds one, that a person pasted. */
  signIn(pasted: string): void {
    this.token = tokenOf(pasted);
    keepToken(window, this.token);
    this.client = new Client(this.token);
    this.authorized = true;
    this.connect();
  }

  get selected(): Session | null {
    const id = this.router.id;
    return this.sessions?.find((s) => s.id === id) ?? null;
  }

  /** hasRoom says that a panel fits beside a session. */
  get hasRoom(): boolean {
    return this.room.dock.current;
  }

  /** isTucked says that the list of sessions has no place beside the page and is drawn over it. */
  get isTucked(): boolean {
    const route = this.router.route;
    const hasDock = route.at === "session" && route.panel !== undefined && this.selected !== null;
    return !(hasDock ? this.room.both.current : this.room.list.current);
  }

  /** waiting is how many sessions wait for the person. */
  get waiting(): number {
    return (this.sessions ?? []).filter((s) => s.status === "waiting" && !s.archived).length;
  }

  /** place is where a session opens: with the panel that the person likes beside it, where there is room. */
  place(id: string): Route {
    const { open, panel, below } = this.prefs.dock;
    return open && this.hasRoom ? { at: "session", id, panel, below } : { at: "session", id };
  }

  /** watch shows the timeline of a session and follows it, and nothing else. */
  watch(id: string): void {
    if (this.watched === id) return;
    if (this.watched) this.socket?.unsubscribe(this.watched);
    this.flush();
    this.watched = id;
    if (!id) {
      this.timeline = null;
      return;
    }
    const timeline = this.timelines.get(id) ?? new Timeline();
    this.timelines.delete(id); // put back last: the first one of the map is the one to let go
    this.timelines.set(id, timeline);
    const oldest = this.timelines.keys().next().value;
    if (this.timelines.size > KEPT_TIMELINES && oldest !== undefined) this.timelines.delete(oldest);
    timeline.answer.clear();
    this.timeline = timeline;
    this.socket?.subscribe(id, timeline.seq);
  }

  retryNow(): void {
    this.socket?.retryNow();
  }

  /** terminalWire returns what connects to a terminal. */
  terminalWire(id: string, terminal: string): (after: number) => TerminalWire {
    return terminalAt(location, this.token, id, terminal);
  }

  /** browser returns the view of a session's browser. */
  browser(id: string): Browser {
    return browserOf(this.client, id, this.viewer, viewerAt(location, this.token, id, this.viewer));
  }

  /** listen is told the frames that no session's fold takes (files), and returns what ends it. */
  listen(heard: (f: Frame) => void): () => void {
    this.listeners.add(heard);
    return () => void this.listeners.delete(heard);
  }

  /** watchFiles names the directories of a session that are open somewhere; it replaces what was named before. */
  watchFiles(id: string, dirs: string[]): void {
    this.socket?.watchFiles(id, dirs);
  }

  /** watchContainers keeps the list of containers fresh until what it returns is called. */
  watchContainers(): () => void {
    this.lookers++;
    this.socket?.watchContainers(true);
    return () => {
      this.lookers--;
      if (this.lookers === 0) this.socket?.watchContainers(false);
    };
  }

  // Commands. Each answers whether the server took it; what follows shows in the events.

  send = (id: string, text: string) => this.deliver("The message was not sent", () => this.client.send(id, text), id);
  rename = (id: string, title: string) => this.attempt("The title was not changed", () => this.client.rename(id, title));
  decide = (id: string, callID: string, allow: boolean, reason: string) =>
    this.deliver("The answer was not taken", () => this.client.decide(id, callID, { allow, reason }), id, callID);
  answer = (id: string, callID: string, r: AnswerRequest) =>
    this.deliver("The answer was not taken", () => this.client.answer(id, callID, r), id, callID);
  /** answerHands answers an agent that asked for hands in the browser. It goes on at once, so this window gives control back first. */
  async answerHands(id: string, callID: string, r: AnswerRequest): Promise<boolean> {
    const browser = this.browser(id);
    if (browser.hold === "me") await browser.giveBack();
    return this.answer(id, callID, r);
  }
  release = (id: string, how: "remove" | "keep" | "stop") =>
    this.attempt("The sandbox was not released", () => this.client.release(id, { how }));
  command = (id: string, verb: Exclude<Verb, "interrupt">) =>
    this.attempt(failures[verb], () => this.client.do(id, verb));

  /** attachTo opens a session in a container that is there already, and returns its id. */
  attachTo(c: EngineContainer): Promise<string> {
    return this.containers.during(c.id, "attaching", async () => {
      let id = "";
      await this.attempt(`No session was opened in ${oneLine(c.name)}`, async () => {
        id = (await this.client.attachTo(c.id, c.name || c.short_id)).session_id;
      });
      return id;
    });
  }

  /** begin starts a session's sandbox that is stopped, or unpauses it. A container that was there before is started as what it is. */
  begin = (s: Session, verb: "start" | "unpause") =>
    this.attempt(failures[verb], async () => {
      if (s.adopted) await this.client.startContainer(containerOf(s));
      await this.client.do(s.id, verb);
    });

  startContainer = (c: EngineContainer) =>
    this.containers.during(c.id, "starting", () => this.attempt(`${oneLine(c.name)} was not started`, () => this.client.startContainer(c.id)));
  stopContainer = (c: EngineContainer) =>
    this.containers.during(c.id, "stopping", () => this.attempt(`${oneLine(c.name)} was not stopped`, () => this.client.stopContainer(c.id)));
  releaseContainer = (c: EngineContainer, how: "remove" | "keep" | "stop") =>
    this.containers.during(c.id, "releasing", () => this.attempt(`${oneLine(c.name)} was not released`, () => this.client.releaseContainer(c.id, { how })));

  /** settled waits until a session's sandbox is ready, and reports whether it is: it may as well fail, or take too long. */
  settled(id: string): Promise<boolean> {
    return new Promise((done) => {
      const late = setTimeout(() => end(false), SETTLED_MS);
      const end = (isReady: boolean): void => {
        clearTimeout(late);
        this.settling.delete(look);
        done(isReady);
      };
      const look = (): void => {
        const s = this.sessions?.find((o) => o.id === id);
        if (s?.sandbox?.value === "ready") end(true);
        else if (s && (s.status === "ended" || s.suspended === "turn_failed" || s.suspended === "no_sandbox" || ["failed", "lost", "released"].includes(s.sandbox?.value ?? ""))) end(false);
      };
      this.settling.add(look);
      look();
    });
  }

  /** archive puts a session away or back, and offers to take that back. */
  async archive(id: string, archived: boolean): Promise<void> {
    const taken = await this.attempt(archived ? "The session was not archived" : "The session was not brought back", () =>
      this.client.archive(id, archived),
    );
    if (!taken || !archived) return;
    const title = titleOf(this.sessions?.find((s) => s.id === id) ?? { title: "" });
    this.toasts.offer(`“${title}” is archived`, "Undo", () => void this.archive(id, false));
  }

  cancelWork = (id: string) => this.attempt("It was not called off", () => this.client.cancelWork(id));

  /** draftFrom opens the form for a session from an image; what was written there stays. */
  draftFrom(image: string): void {
    chooseImage(sessionStorage, image);
    this.router.create();
  }

  stopAll = () => this.attempt("Not every turn was stopped", () => this.client.stopAll());

  /** ask shows a question; what it names runs when the person says yes. */
  ask(question: Question): void {
    this.question = question;
  }

  /** follow opens a link that leads out of the page. */
  follow(url: string): void {
    if (this.about?.window) void this.attempt("The link did not open", () => this.client.openLink(url));
    else window.open(url, "_blank", "noopener,noreferrer");
  }

  /** setNotify turns calls on or off; the browser asks the person the first time. */
  async setNotify(on: boolean): Promise<void> {
    if (on && !this.about?.window && (await Notification.requestPermission()) !== "granted") {
      this.toasts.show("Notifications are not allowed", "Allow them for this page in the browser's settings, then turn them on here.");
      return;
    }
    this.prefs.setNotify(on);
  }

  /** container reads a session's sandbox back; what it finds is the newest that is known of its state. */
  async container(id: string): Promise<Container> {
    const container = await this.client.container(id);
    const session = this.sessions?.find((s) => s.id === id);
    if (session?.sandbox && container.condition.value) this.merge({ ...session, sandbox: container.condition });
    return container;
  }

  async interrupt(id: string): Promise<void> {
    if (this.stopping === id) return;
    this.stopping = id;
    const taken = await this.attempt("The turn was not stopped", () => this.client.do(id, "interrupt"));
    if (!taken) this.stopping = "";
  }

  /** open opens a session and goes there; it throws an ApiError for the form to show. */
  async open(r: OpenRequest): Promise<void> {
    try {
      const { session_id } = await this.client.open(r);
      this.router.go(this.place(session_id));
    } catch (err) {
      this.noticeAuth(err);
      throw err;
    }
  }

  /** openDemo opens the demo behind a wall that there is; without one it says so, and never goes without. */
  async openDemo(): Promise<void> {
    if (this.demo) return;
    this.demo = "opening";
    this.demoFault = "";
    try {
      const about = await this.client.about();
      this.about = about;
      const place = await this.demoPlace(about);
      if (!place) return;
      await this.open({
        title: "Demo",
        goal: DEMO_GOAL,
        workspace: "",
        model: "demo",
        agent: "",
        spec: { ...place, network: { mode: "none" } },
        approvals: "auto",
        one_shot: false,
        plugins: null,
      });
    } catch (err) {
      if (this.noticeAuth(err)) return;
      this.demoFault = messageOf(err);
      if (this.router.route.at !== "home") this.toasts.show("The demo did not start", this.demoFault);
    } finally {
      this.demo = "";
    }
  }

  /** known returns what the server says of itself, which is asked where it has not come yet. */
  async known(): Promise<About | null> {
    if (!this.about) await this.attempt("The server was not asked what it has", async () => (this.about = await this.client.about()));
    return this.about;
  }

  async examine(): Promise<void> {
    await this.attempt("The checks did not run", async () => {
      await this.health.run(() => this.client.doctor());
      this.about = await this.client.about();
    });
  }

  /** demoPlace returns a wall, and the image for it, which is built first where it is missing; null when that was cancelled. */
  private async demoPlace(about: About): Promise<{ wall: Wall; image?: string } | null> {
    const has = (wall: Wall): boolean => about.walls?.some((w) => w.wall === wall && w.available) ?? false;
    if (has("docker") && about.default_wall !== "namespace") {
      await this.images.load();
      const list = this.images.list ?? [];
      const there = findImage(this.images.usual, list) ?? list.find((i) => this.images.recipe(i.ref)?.name === TINY);
      if (there) return { wall: "docker", image: there.ref };
      if (!this.images.error) {
        this.demo = "image";
        const build = await this.images.made(TINY);
        this.demo = "opening";
        if (build.state === "done") return { wall: "docker", image: build.ref };
        if (build.state === "cancelled") return null;
        throw new ApiError(0, "image", `The demo's image was not built: ${build.error}`);
      }
    }
    if (has("namespace")) return { wall: "namespace" };
    throw new ApiError(0, "no_wall", "There is no wall on this machine to put the demo behind. The checks say what to install.");
  }

  private connect(): void {
    this.socket?.close();
    this.socket = new EventSocket(connectTo(location, this.token), {
      frame: (f) => this.apply(f),
      link: (l) => this.linked(l),
      renewed: (what) => this.renewed(what),
    });
    this.socket.open();
    if (this.lookers > 0) this.socket.watchContainers(true);
    if (this.watched) this.socket.subscribe(this.watched, this.timeline?.seq ?? 0);
    void this.load();
  }

  private async load(): Promise<void> {
    try {
      this.about = await this.client.about();
      await this.health.run(() => this.client.doctor());
    } catch (err) {
      this.noticeAuth(err); // an unreachable server shows as the state of the link
    }
  }

  private linked(l: Link): void {
    this.link = l;
    // It stays lost while a retry runs, so that what is shown does not flicker with every attempt.
    if (l.state === "waiting") this.clock.lostAt = l.heardAt;
    if (l.state === "open") this.clock.lostAt = 0;
    // A socket does not say why it was refused; a request does.
    if (l.state === "waiting") void this.client.about().catch((err: unknown) => this.noticeAuth(err));
    if (l.state === "open" && !this.about) void this.load();
    if (l.state === "open" && this.images.isBuilding) void this.images.load(); // what came meanwhile was missed
  }

  private renewed(what: "instance" | "version"): void {
    if (what === "version") {
      location.reload(); // this page belongs to the older server
      return;
    }
    this.timelines.clear();
    const id = this.watched;
    this.watched = "";
    if (id) this.watch(id);
    void this.load();
  }

  private apply(f: Frame): void {
    switch (f.type) {
      case "sessions":
        this.take((f.sessions ?? []).toSorted(newestFirst));
        return;
      case "session":
        if (f.session) this.merge(f.session);
        return;
      case "event":
      case "live":
      case "caught_up":
        this.gather(f);
        return;
      case "build":
        this.images.take(f);
        if (f.build?.state === "done" && this.health.mends(f.build.image)) void this.examine();
        return;
      case "containers":
        if (f.containers) this.containers.take(f.containers);
        return;
      case "files":
        for (const heard of this.listeners) heard(f);
        return;
      case "error":
        if (f.error && f.error.code !== "unknown_session") this.toasts.show("The server reports", f.error.message); // the page says that itself
        return;
    }
  }

  /** merge takes what is told of a session; of its sandbox's state, the newest that was observed stays. */
  private merge(s: Session): void {
    const known = this.sessions ?? [];
    const last = known.find((o) => o.id === s.id);
    const others = known.filter((o) => o.id !== s.id);
    this.take([...others, { ...s, sandbox: newest(last?.sandbox ?? null, s.sandbox) }].sort(newestFirst));
  }

  private take(sessions: Session[]): void {
    const before = this.sessions ?? [];
    this.sessions = sessions;
    this.settleStop();
    for (const look of [...this.settling]) look();
    void this.calling.notifier.observe(before, sessions);
  }

  /** call tells the person outside the page, when they want that. */
  private call(title: string, body: string, id: string, tag: string): void {
    if (!this.prefs.notify) return;
    if (this.about?.window) {
      void this.client.notify(title, body).catch(() => undefined); // nothing hangs on it
      return;
    }
    if (Notification.permission !== "granted") return;
    const notification = new Notification(title, { body, tag, icon: "./icon.svg" });
    notification.onclick = () => {
      window.focus();
      this.router.go(this.place(id));
      notification.close();
    };
  }

  private settleStop(): void {
    const s = this.sessions?.find((o) => o.id === this.stopping);
    if (this.stopping && s?.status !== "running" && s?.status !== "waiting") this.stopping = "";
  }

  /** gather keeps the frames of a timeline in their order: what was live before a durable event belongs before it. */
  private gather(f: Frame): void {
    this.gathered.push(f);
    const wait = this.flushedAt + GATHER_MS - performance.now();
    if (wait <= 0 && this.gathering === undefined) this.flush();
    else this.gathering ??= setTimeout(() => this.flush(), wait);
  }

  private flush(): void {
    clearTimeout(this.gathering);
    this.gathering = undefined;
    const frames = this.gathered;
    this.gathered = [];
    for (const f of frames) {
      const timeline = this.timelines.get(f.session_id ?? f.event?.root_task_id ?? f.live?.session_id ?? "");
      if (f.event) timeline?.apply(f.event);
      else if (f.live) timeline?.applyLive(f.live);
      else if (timeline) timeline.caughtUp = true;
    }
    this.flushedAt = performance.now();
  }

  private async attempt(failure: string, act: () => Promise<unknown>): Promise<boolean> {
    try {
      await act();
      return true;
    } catch (err) {
      if (!this.noticeAuth(err)) this.toasts.show(failure, messageOf(err));
      return false;
    }
  }

  /** deliver attempts to send what a person typed, which is kept until the server has it. */
  private deliver(failure: string, act: () => Promise<unknown>, session: string, call = ""): Promise<boolean> {
    const text = this.unsent.of(session, call);
    return this.attempt(failure, async () => {
      await act();
      this.unsent.sent(text, session, call);
    });
  }

  /** noticeAuth reports whether the server refused the token, and asks for another one then. */
  private noticeAuth(err: unknown): boolean {
    if (!(err instanceof ApiError) || err.status !== 401) return false;
    this.authorized = false;
    this.socket?.close();
    this.socket = null;
    forgetToken(window);
    return true;
  }
}

const failures: Record<Exclude<Verb, "interrupt">, string> = {
  attach: "The sandbox was not attached",
  start: "The sandbox was not started",
  stop: "The sandbox was not stopped",
  unpause: "The sandbox was not unpaused",
  restart: "The sandbox was not restarted",
  retry: "The model was not asked again",
  reprovision: "No new sandbox was made",
  close: "The session was not closed",
};

/** containerOf returns the id of the container that a session's sandbox is, or is a guest in. */
function containerOf(s: Session): string {
  return /#([^+]+)/.exec(s.ref)?.[1] ?? s.short_id;
}

/** isReload says that this page was there before, in this window. */
function isReload(): boolean {
  const [entry] = performance.getEntriesByType("navigation");
  return entry instanceof PerformanceNavigationTiming && entry.type === "reload";
}

function newestFirst(a: Session, b: Session): number {
  return a.created_at < b.created_at ? 1 : a.created_at > b.created_at ? -1 : 0;
}
