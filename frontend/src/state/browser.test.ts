import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ApiError } from "../api/client";
import type { BrowserInfo, RelayState, TabsInfo, TabsNotice } from "../api/types.gen";
import type { Size, ViewerWire } from "../api/viewer";
import { addressOf, Browser, Consent, titleOfTab, type BrowserServer } from "./browser.svelte";

class Wire implements ViewerWire {
  readyState = 1;
  sent: Record<string, unknown>[] = [];
  onopen: (() => void) | null = null;
  onclose: (() => void) | null = null;
  onmessage: ((m: { data: unknown }) => void) | null = null;
  send(data: string): void {
    this.sent.push(JSON.parse(data) as Record<string, unknown>);
  }
  close(): void {
    this.readyState = 3;
  }
  tell(state: Partial<RelayState>): void {
    this.say({ type: "state", state: { rev: 1, active: 1, tabs: [tab()], control: { look: false }, ...state } });
  }
  say(m: unknown): void {
    this.onmessage?.({ data: JSON.stringify(m) });
  }
  frame(seq: number, at: string): void {
    const head = new TextEncoder().encode(JSON.stringify({ seq, at }));
    const bytes = new Uint8Array(4 + head.length + 1);
    new DataView(bytes.buffer).setUint32(0, head.length);
    bytes.set(head, 4);
    this.onmessage?.({ data: bytes.buffer });
  }
}

const tab = (over: Partial<TabsInfo> = {}): TabsInfo => ({ number: 1, target: "T", url: "https://a.example/", title: "A", active: true, loading: false, crashed: false, ...over });
const notice = (seq: number, kind = "dialog"): TabsNotice => ({ seq, at: "2026-01-01T00:00:00Z", kind, text: `notice ${seq}` });
const info = (over: Partial<BrowserInfo> = {}): BrowserInfo => ({
  state: "running", observed_at: "2026-01-01T00:00:00Z", source: "guest", error: "", version: "", program: "", sandboxed: true, unsandboxed: "", downloads: "/d",
  viewers: 0, control: { holder: "", look: false }, live: true, ...over,
});

describe("Browser", () => {
  let wire: Wire;
  let sizes: Size[];
  let lists: string[];
  let browser: Browser;
  let server: BrowserServer;

  beforeEach(() => {
    vi.useFakeTimers({ now: Date.parse("2026-01-01T00:00:00Z") });
    [sizes, lists] = [[], []];
    server = {
      browser: () => Promise.resolve(info()),
      startBrowser: () => Promise.resolve(undefined),
      stopBrowser: () => Promise.resolve(undefined),
      files: (_, path) => {
        lists.push(path);
        return Promise.reject(new ApiError(404, "not_found", "no such folder"));
      },
    };
    browser = new Browser(server, "s1", "me", (size) => {
      sizes.push(size);
      wire = new Wire();
      return wire;
    });
  });
  afterEach(() => {
    browser.pause();
    vi.useRealTimers();
  });

  function look(): void {
    browser.look();
    wire.onopen?.();
  }

  it("knows whose hands are on it, and for how long", () => {
    look();
    wire.tell({});
    expect([browser.hold, browser.mine]).toEqual(["agent", false]);
    wire.tell({ control: { viewer: "other", until: "2026-01-01T00:05:00Z", look: true } });
    expect([browser.hold, browser.mine]).toEqual(["other", false]);
    wire.tell({ control: { viewer: "me", until: "2026-01-01T00:05:00Z", look: true } });
    expect([browser.hold, browser.mine]).toEqual(["me", true]);
    expect(browser.left(Date.now())).toBe(300_000);
    wire.onclose?.();
    expect([browser.hold, browser.mine]).toEqual(["me", false]); // nothing reaches the page meanwhile
  });

  it("gives back what is its own when its panel goes away, and nobody else's", () => {
    for (const viewer of ["other", "me"]) {
      look();
      wire.tell({ control: { viewer, until: "2026-01-01T00:05:00Z", look: true } });
      browser.leave();
      expect([viewer, wire.sent.some((m) => m.type === "give_back"), wire.readyState, browser.link, browser.refusal]).toEqual([viewer, viewer === "me", 3, "paused", null]);
      expect(browser.hold).toBe("agent");
    }
  });

  it("forgets who has control when the view ends, is refused or given up, and not while it is made again", async () => {
    for (const viewer of ["me", "other"]) {
      const hold = viewer === "me" ? "me" : "other";
      const control = { viewer, until: "2026-01-01T00:05:00Z", look: true };
      const held = (): void => {
        look();
        wire.tell({ control });
        expect(browser.hold).toBe(hold);
      };
      held();
      wire.tell({ control, ended: "The sandbox was stopped." });
      expect([browser.link, browser.hold, browser.left(Date.now()), browser.view?.ended]).toEqual(["ended", "agent", 0, "The sandbox was stopped."]);

      held();
      wire.onclose?.();
      expect([browser.link, browser.hold]).toEqual(["waiting", hold]);
      await vi.advanceTimersByTimeAsync(10_000);
      expect([browser.link, browser.hold]).toEqual(["connecting", hold]);
      wire.say({ type: "error", error: { code: "no_sandbox", message: "it was released", field: "" } });
      expect([browser.link, browser.hold]).toEqual(["refused", "agent"]);

      held();
      browser.pause();
      expect(browser.hold).toBe("agent");
    }
  });

  it("counts the time that is left by the server's clock", () => {
    look();
    wire.say({ type: "pong", t: wire.sent.find((m) => m.type === "ping")?.t, server: "2026-01-01T00:01:00Z" });
    wire.tell({ control: { viewer: "me", until: "2026-01-01T00:05:00Z", look: true } });
    expect(browser.left(Date.now())).toBe(240_000);
  });

  it("keeps what happened once, and says what is new", () => {
    look();
    wire.tell({ notices: [notice(1), notice(2)] });
    wire.tell({ notices: [notice(3)] });
    wire.tell({});
    expect(browser.notices.map((n) => n.text)).toEqual(["notice 1", "notice 2", "notice 3"]);
    expect(browser.news).toBe(3);
    browser.acknowledge();
    expect(browser.news).toBe(0);
    wire.tell({ notices: [notice(4)] });
    expect(browser.news).toBe(1);
    wire.tell({ ended: "The browser was stopped." });
    look();
    wire.tell({ notices: [{ ...notice(1), text: "another browser's first" }] });
    expect(browser.notices.map((n) => n.text).slice(-2)).toEqual(["notice 4", "another browser's first"]);
    expect(new Set(browser.notices.map((n) => n.seq)).size).toBe(5);
    expect(browser.news).toBe(2);
  });

  it("does not take the age of a still page for the delay of its picture", async () => {
    look();
    wire.tell({});
    wire.frame(1, new Date(Date.now() - 60_000).toISOString());
    await vi.advanceTimersByTimeAsync(0);
    expect([browser.head?.seq, browser.late]).toEqual([1, 0]);
    wire.frame(2, new Date(Date.now() - 30).toISOString());
    await vi.advanceTimersByTimeAsync(0);
    expect(browser.late).toBeCloseTo(30);
    browser.pause();
    look();
    wire.frame(2, new Date(Date.now() - 60_000).toISOString());
    await vi.advanceTimersByTimeAsync(0);
    expect(browser.late).toBeCloseTo(30);
  });

  it("reads the downloads when there is one, and takes a folder that is not there yet for empty", async () => {
    await browser.read();
    look();
    wire.tell({ notices: [notice(1, "download")] });
    await vi.advanceTimersByTimeAsync(0);
    expect(lists).toEqual(["/d"]);
    expect(browser.files).toEqual([]);
  });

  it("says what was refused until something is done, and nothing of an input that came late", async () => {
    look();
    wire.tell({});
    const refuse = (kind: "navigate"): unknown => {
      void browser[kind]("file:///etc/passwd");
      return wire.sent.at(-1)?.id;
    };
    const took = browser.take();
    expect(browser.taking).toBe(true);
    const ask = wire.sent.find((m) => m.type === "take");
    wire.say({ type: "error", id: ask?.id, error: { code: "browser_held", message: "held", field: "" } });
    expect(await took).toBe(false);
    expect(browser.refusal?.code).toBe("browser_held");
    const gave = browser.giveBack();
    wire.say({ type: "done", id: wire.sent.find((m) => m.type === "give_back")?.id });
    expect(await gave).toBe(true);
    expect(browser.refusal).toBeNull();
    wire.say({ type: "error", id: refuse("navigate"), error: { code: "forbidden_address", message: "only web pages", field: "" } });
    await vi.advanceTimersByTimeAsync(0);
    expect(browser.refusal?.code).toBe("forbidden_address");
    void browser.navigate("a.example"); // which takes a while
    expect(browser.refusal).toBeNull();
    wire.say({ type: "error", id: refuse("navigate"), error: { code: "forbidden_address", message: "only web pages", field: "" } });
    await vi.advanceTimersByTimeAsync(0);
    wire.tell({ rev: 2 });
    expect(browser.refusal).not.toBeNull();
    wire.tell({ control: { viewer: "other", until: "2026-01-01T00:05:00Z", look: true } });
    expect(browser.refusal).toBeNull();
    wire.say({ type: "error", error: { code: "not_in_control", message: "no", field: "" } });
    expect(browser.refusal).toBeNull();
    wire.say({ type: "error", error: { code: "invalid", message: "not an input", field: "" } });
    expect(browser.refusal?.message).toBe("not an input");
  });

  it("counts pictures, and draws the last one anew for who comes later", async () => {
    look();
    wire.tell({});
    const drawn: number[] = [];
    const stop = browser.onto(() => Promise.resolve(void drawn.push(1)));
    for (let seq = 1; seq <= 4; seq++) {
      wire.frame(seq, new Date(Date.now() - 10).toISOString());
      await vi.advanceTimersByTimeAsync(250);
    }
    expect(browser.head?.seq).toBe(4);
    expect(browser.rate(Date.now())).toBe(2);
    expect(browser.late).toBeCloseTo(10);
    expect(browser.rate(Date.now() + 5_000)).toBe(0);
    stop();
    const later: number[] = [];
    browser.onto(() => Promise.resolve(void later.push(1)));
    expect([drawn.length, later.length]).toEqual([4, 1]);
  });

  it("expects a size only until one was measured", () => {
    browser.expect({ width: 300, height: 200, dpr: 1 });
    browser.look();
    expect(sizes).toEqual([{ width: 300, height: 200, dpr: 1 }]);
    browser.resize({ width: 310, height: 210, dpr: 1 });
    browser.expect({ width: 300, height: 200, dpr: 1 });
    expect(wire.sent.filter((m) => m.type === "view").at(-1)).toMatchObject({ width: 310 });
  });

  it("starts, and says why that did not go", async () => {
    await browser.read();
    await browser.start();
    expect(browser.info?.state).toBe("starting");
    server.startBrowser = () => Promise.reject(new ApiError(503, "browser_failed", "it did not start"));
    await browser.start();
    expect(browser.refusal).toMatchObject({ code: "browser_failed", message: "it did not start" });
    server.browser = () => Promise.reject(new ApiError(409, "unreachable", "no answer"));
    await browser.read();
    expect(browser.fault?.message).toBe("no answer");
  });
});

describe("words of a tab", () => {
  it("says the address that was asked for, and nothing for an empty page", () => {
    expect(addressOf(tab({ url: "about:blank" }))).toBe("");
    expect(addressOf(tab({ url: "chrome-error://chromewebdata/", failed: "https://gone.example/" }))).toBe("https://gone.example/");
    expect(addressOf(undefined)).toBe("");
  });

  it("names a tab by its title, else by its address", () => {
    expect(titleOfTab(tab())).toBe("A");
    expect(titleOfTab(tab({ title: "" }))).toBe("a.example/");
    expect(titleOfTab(tab({ title: "", url: "about:blank" }))).toBe("New tab");
    expect(titleOfTab(tab({ crashed: true }))).toBe("Crashed");
  });
});

describe("Consent", () => {
  it("asks until a person says not to", () => {
    const kept = new Map<string, string>();
    const storage = { getItem: (k: string) => kept.get(k) ?? null, setItem: (k: string, v: string) => void kept.set(k, v) };
    expect(new Consent(storage).copies).toBe(false);
    new Consent(storage).set(true);
    expect(new Consent(storage).copies).toBe(true);
  });
});
