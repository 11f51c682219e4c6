// The browsers of the canned sandboxes: the real protocol of the viewer's socket, with pictures that were taken before,
// and a memory of all that it was told. No page is behind it.
import { readFileSync } from "node:fs";
import { ago, isStopped, now, stamp } from "./clock.mjs";
import { fault } from "./fault.mjs";

const picture = readFileSync(new URL("./pages/shop.jpg", import.meta.url));
/** The page that the picture is of, in CSS pixels. */
export const PAGE = { width: 1280, height: 800 };
const WINDOW = 2;
const HOLD = 300;
const DOWNLOADS = "/home/kim/Downloads";

const tab = (over) => ({ number: 1, target: `T${over.number ?? 1}`, url: "https://tickets.example/sign-in", title: "Harbour Tickets: sign in", active: true, loading: false, crashed: false, ...over });

export class MockBrowser {
  constructor(session) {
    this.session = session;
    this.state = { s1: "running", s2: "stopped" }[session.id] ?? "none";
    this.live = true;
    this.error = this.state === "none" ? "there is no Chromium in this image\nlooked for chromium, google-chrome-stable, headless-shell on the PATH, and in /opt/google/chrome, /ms-playwright" : "";
    this.views = new Set();
    this.tabs = [tab({}), tab({ number: 2, url: "https://tickets.example/timetable", title: "Timetable", active: false, opener: 1 })];
    this.control = { look: false };
    this.dialog = null;
    this.rev = 1;
    this.seq = 0;
    this.noticed = 0;
    this.notices = [];
    /** What viewers sent, in its order. */
    this.inputs = [];
    this.commands = [];
    this.got = [];
    this.sizes = [];
    this.joins = [];
    this.selection = "";
    this.text = "";
    /** tellsFirst says that who takes control hears of it before the answer, which waits in answers: the server does either. */
    this.tellsFirst = false;
    this.answers = [];
  }

  info() {
    return {
      state: this.state, observed_at: stamp(), source: "guest", error: this.error, version: this.state === "none" ? "" : "Chrome/156.0.8078.108", program: "/usr/bin/chromium",
      sandboxed: true, unsandboxed: "", downloads: DOWNLOADS, viewers: this.views.size, control: { holder: this.control.viewer ?? "", until: this.control.until, look: this.control.look },
      live: this.live,
    };
  }

  answer(method, verb, query) {
    if (verb === "browser") return [200, this.info()];
    if (verb === "browser/start") {
      this.state = "starting";
      setTimeout(() => (this.state = "running"), 300);
      return [202, {}];
    }
    if (verb === "browser/stop") {
      this.state = "stopped";
      this.end("The browser was stopped.");
      return [202, {}];
    }
    if (verb === "files" && query.get("path") === DOWNLOADS) {
      const file = (name, size, seconds) => ({ path: `${DOWNLOADS}/${name}`, kind: "file", size, mode: 0o644, uid: 1000, gid: 1000, mod_time: ago(seconds), symlink: "" });
      return [200, { path: DOWNLOADS, entries: [file("ticket-4711.pdf", 81_234, 30), file("timetable.csv", 2_048, 300)], truncated: false }];
    }
    return null;
  }

  view(ws, query) {
    this.joins.push(Object.fromEntries(query));
    if (this.refusal) {
      ws.send(JSON.stringify({ type: "error", error: fault(409, ...this.refusal)[1].error }));
      return ws.close(1000);
    }
    const v = { ws, viewer: query.get("viewer"), sent: [], seen: 0, noticed: this.noticed };
    this.views.add(v);
    ws.on("close", () => this.views.delete(v));
    ws.on("message", (data) => this.take(v, JSON.parse(String(data))));
    this.tellOne(v);
    this.frame();
  }

  take(v, m) {
    const done = () => m.id && v.ws.send(JSON.stringify({ type: "done", id: m.id }));
    const refuse = (...what) => v.ws.send(JSON.stringify({ type: "error", id: m.id, error: fault(409, ...what)[1].error }));
    const holds = this.control.viewer === v.viewer;
    switch (m.type) {
      case "ping":
        return v.ws.send(JSON.stringify({ type: "pong", ...(!isStopped && { t: m.t, server: stamp() }) }));
      case "got":
        this.got.push(m.seq);
        v.sent = v.sent.filter((seq) => seq > m.seq);
        return this.push(v);
      case "view":
        this.sizes.push(m);
        return;
      case "take":
      case "extend":
        if (this.control.viewer && !holds) return refuse("browser_held", "a person has control of the browser");
        if (this.tellsFirst) this.answers.push(done);
        else done();
        return this.tell({ control: { viewer: v.viewer, until: stamp(now() + (m.seconds || HOLD) * 1000), look: true } });
      case "give_back":
        done();
        return this.tell({ control: { look: true } });
      case "copy":
        return v.ws.send(JSON.stringify({ type: "clipboard", id: m.id, text: this.selection }));
      case "input":
        if (!holds) return refuse("not_in_control", "take control first");
        this.inputs.push(m.input);
        if (m.input.text && m.input.type !== "up" && m.input.kind !== "compose") this.text += m.input.text;
        return this.frame();
      case "command":
        if (!holds) return refuse("not_in_control", "take control first");
        this.commands.push(m.command);
        return this.obey(m.command, done, refuse);
    }
  }

  obey(c, done, refuse) {
    if (c.kind === "navigate" && c.url.startsWith("file:")) return refuse("forbidden_address", "only http and https pages are opened");
    done();
    if (c.kind === "switch") this.tell({ tabs: this.tabs.map((t) => ({ ...t, active: t.number === c.tab })) });
    if (c.kind === "close") this.tell({ tabs: this.tabs.filter((t) => t.number !== c.tab).map((t, i) => ({ ...t, active: i === 0 })) });
    if (c.kind === "open") this.tell({ tabs: [...this.tabs.map((t) => ({ ...t, active: false })), tab({ number: this.tabs.length + 1, url: "about:blank", title: "" })] });
    if (c.kind === "navigate") this.tell({ tabs: this.tabs.map((t) => (t.active ? { ...t, url: c.url.includes("://") ? c.url : `https://${c.url}`, title: c.url } : t)) });
    if (c.kind === "answer") this.tell({ dialog: null });
  }

  /** tell changes what is, and tells everybody who looks. */
  tell(patch = {}, notice) {
    Object.assign(this, patch);
    this.rev++;
    if (notice) this.notices.push({ seq: ++this.noticed, at: stamp(), tab: 1, ...notice });
    for (const v of this.views) this.tellOne(v);
  }

  tellOne(v) {
    const notices = this.notices.filter((n) => n.seq > v.noticed);
    v.noticed = this.noticed;
    const active = this.tabs.find((t) => t.active)?.number ?? 0;
    const state = { rev: this.rev, active, tabs: this.tabs, control: this.control, ...(this.dialog && { dialog: this.dialog }), ...(this.lost && { lost: this.lost }), ...(this.ended && { ended: this.ended }), ...(notices.length > 0 && { notices }) };
    v.ws.send(JSON.stringify({ type: "state", state }));
  }

  /** frame is a new picture of the page. */
  frame() {
    this.seq++;
    this.at = stamp();
    for (const v of this.views) this.push(v);
  }

  push(v) {
    if (v.seen >= this.seq || v.sent.length >= WINDOW) return;
    const head = Buffer.from(JSON.stringify({ seq: this.seq, tab: 1, shown: this.at, at: this.at, meta: { offset_top: 0, page_scale_factor: 1, device_width: PAGE.width, device_height: PAGE.height, scroll_x: 0, scroll_y: 0 } }));
    const length = Buffer.alloc(4);
    length.writeUInt32BE(head.length);
    v.seen = this.seq;
    v.sent.push(this.seq);
    v.ws.send(Buffer.concat([length, head, picture]));
  }

  /** play paints n pictures a second until what it returns is called. */
  play(n) {
    const timer = setInterval(() => this.frame(), 1000 / n);
    return () => clearInterval(timer);
  }

  end(reason) {
    this.ended = reason;
    this.tell();
    for (const v of this.views) v.ws.close(1000);
    this.ended = "";
  }
}
