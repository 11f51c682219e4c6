// The page as text, and the cards of the browser's calls, over a canned server:
//   npm run build && node --test e2e/twin.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { audit, becomes, skip } from "./browser.mjs";
import { open, page, server } from "./canned.mjs";
import { fault } from "./fault.mjs";

const node = (depth, role, name = "", more = {}) => ({ depth, role, name, ...more });
const tab = { number: 1, target: "t1", url: "https://tickets.example/", title: "Harbour Tickets", active: true, loading: false, crashed: false };
const small = {
  tab,
  cut: false,
  nodes: [
    node(0, "RootWebArea", "Harbour Tickets"),
    node(1, "navigation", "Main"),
    node(2, "link", "Ferries"),
    node(1, "main"),
    node(2, "heading", "The evening ferry", { level: 1 }),
    node(2, "heading", "What it costs", { level: 2 }),
    node(2, "text", "<img src=x onerror=alert(1)> \u202e twelve crowns"),
    node(2, "image", "A ferry at the quay"),
    node(2, "list"),
    node(3, "listitem"),
    node(4, "link", "Timetable"),
    node(2, "textbox", "Name", { value: "Kim Holm", states: ["required"] }),
    node(2, "button", "Continue"),
  ],
};
const ferries = (n) => ({
  tab: { ...tab, url: "https://tickets.example/all" },
  cut: true,
  nodes: [node(0, "RootWebArea", "All ferries"), ...Array.from({ length: n - 1 }, (_, i) => node(1, i % 10 ? "text" : "link", `Ferry ${i} of the line`))],
});

/** serve answers the question for the outline with what outline() gives, and counts. */
async function show(outline) {
  const asked = { n: 0 };
  await open();
  await page.route("**/api/v1/sessions/s1/browser/outline", (route) => {
    asked.n++;
    const o = outline(asked.n);
    return route.fulfill(Array.isArray(o) ? { status: o[0], json: o[1] } : { json: o });
  });
  await page.goto(`${server.url}#/s/s1/browser`);
  await page.locator("#panel-browser").getByRole("radio", { name: "Text" }).click();
  return asked;
}
const twin = () => page.getByRole("region", { name: "Page as text" });
const search = () => twin().getByRole("searchbox", { name: "Search the page's text" });

test("a page is read as what it is made of, in words and levels that a screen reader has", { skip }, async () => {
  await show(() => small);
  await twin().getByRole("heading", { name: "The evening ferry", level: 1 }).waitFor();
  await twin().getByRole("heading", { name: "What it costs", level: 2 }).waitFor();
  const rows = await twin().getByRole("listitem").allInnerTexts();
  const said = rows.map((r) => r.replace(/\s+/g, " ").trim());
  for (const want of ["navigation Main", "link Ferries", "picture A ferry at the quay", "list 1 item", "• link Timetable", "field Name = Kim Holm required", "button Continue"]) {
    assert.ok(said.includes(want), `${want} is among ${said.join(" | ")}`);
  }
  await twin().getByText("<img src=x onerror=alert(1)> ⟨U+202E⟩ twelve crowns").waitFor();
  assert.equal(await twin().locator("a, img").count(), 0, "what a page says is text");
  assert.deepEqual(await audit(page, "the page as text", { within: "#panel-browser" }), []);
});

test("a search counts, goes on, comes around, and moves nothing but the text", { skip }, async () => {
  await show(() => ferries(900));
  await search().fill("ferry 1");
  await twin().getByText("1 of 111", { exact: true }).waitFor();
  const before = await page.evaluate(() => [document.scrollingElement.scrollTop, document.querySelector("main").scrollTop]);
  await page.keyboard.press("Shift+Enter");
  await twin().getByText("111 of 111").waitFor();
  await page.locator(".twin .now", { hasText: "Ferry 199 of the line" }).waitFor();
  await page.keyboard.press("Enter");
  await twin().getByText("1 of 111", { exact: true }).waitFor();
  assert.deepEqual(await page.evaluate(() => [document.scrollingElement.scrollTop, document.querySelector("main").scrollTop]), before);
  await search().fill("no such ferry");
  await twin().getByText("no match").waitFor();
  await page.keyboard.press("Escape");
  await becomes(() => search().inputValue(), "");
});

test("a page of five thousand parts is there at once, and whole when it is scrolled", { skip }, async () => {
  await show(() => ferries(5000));
  await twin().getByText("Ferry 9 of the line", { exact: true }).waitFor();
  const rows = () => page.locator(".twin [data-row]").count();
  assert.ok((await rows()) <= 1000, "not all of it is drawn at first");
  await page.evaluate(() => {
    window.longest = 0;
    let last = performance.now();
    const beat = () => {
      window.longest = Math.max(window.longest, performance.now() - last);
      last = performance.now();
      setTimeout(beat, 10);
    };
    beat();
  });
  await page.evaluate(async () => {
    const list = document.querySelector(".twin .scroll");
    for (const end = Date.now() + 60_000; list.querySelectorAll("[data-row]").length < 5000 && Date.now() < end; ) {
      list.scrollTop = list.scrollHeight;
      await new Promise((done) => setTimeout(done, 50));
    }
  });
  await becomes(rows, 5000);
  await page.locator(".twin .scroll > p", { hasText: "The page is longer: 5000 parts of it were read." }).waitFor();
  const longest = await page.evaluate(() => window.longest);
  assert.ok(longest < 3_000, `the page stood still for ${Math.round(longest)} ms`);
});

test("what was not read is said, and what was read stays", { skip }, async () => {
  await show((n) => (n === 1 ? fault(503, "browser_failed", "the page does not answer") : n === 2 ? small : fault(503, "browser_failed", "it is busy")));
  await twin().getByText("The page was not read").waitFor();
  await twin().getByRole("button", { name: "Try again" }).click();
  await twin().getByRole("heading", { name: "The evening ferry" }).waitFor();
  await twin().getByRole("button", { name: "Read the page again" }).click();
  await twin().getByText("Not read again: it is busy").waitFor();
  await twin().getByRole("heading", { name: "The evening ferry" }).waitFor();
});

test("it follows the page while it is let", { skip }, async () => {
  const asked = await show((n) => ({ ...small, nodes: [node(0, "RootWebArea", `Reading ${n}`)] }));
  await twin().getByText("Reading 1").waitFor();
  server.browser("s1").tell({});
  await twin().getByText("Reading 2").waitFor();
  await twin().getByRole("button", { name: "Follow the page" }).click();
  server.browser("s1").tell({});
  await page.waitForTimeout(2_500); // longer than a change takes to be read
  assert.equal(asked.n, 2);
});

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAGAAAAA2CAIAAAC3LQuFAAAAcUlEQVR42u3YMQ0AMAhFQRQgsmPXSiSprjpg68QlT8FNfGLVVVMgAAQIECBAgABNBcp91AQIECBAgAABAjQWyK1sagACBAgQIECA5KNoagACBAgQIAEC5KNoagACBAgQIAEC5KNoagACBAgQIAEC9KEHdoK4ZSi+yhIAAAAASUVORK5CYII=";
let n = 0;
/** call tells of one call of the browser, from its start to its result. */
function call(tool, input, display, result = {}) {
  const call_id = `b${++n}`;
  const where = { wall: "docker", sandbox_id: "3f2a9c", workdir: "/workspace", boot: "b1" };
  server.tell("s1", "ToolCallStarted", { call_id, tool, input, actor: "agent", where });
  server.tell("s1", "ToolResultRecorded", {
    call_id, tool, status: "ok", text: "", images: null, files: null, where, not_made: false, duration: 4e7, ...result,
    display: { action: tool.slice(8), target: "", url: tab.url, title: tab.title, tab: 1, notices: null, elements: 0, snapshot: "", secret: false, refused: "", picture: null, box: null, tabs: null, downloads: null, console: null, ...display },
  });
}

test("the list of what happened closes by Esc wherever one is, and with another view", { skip }, async () => {
  await show(() => small);
  await twin().getByRole("heading", { name: "The evening ferry" }).waitFor();
  const panel = page.locator("#panel-browser");
  const list = panel.getByRole("region", { name: "What happened in the browser" });
  const opens = async () => {
    await panel.getByRole("button", { name: "What happened, and downloads" }).click();
    await list.waitFor();
  };
  await opens();
  await panel.getByRole("radio", { name: "Text" }).focus();
  await page.keyboard.press("Escape");
  await list.waitFor({ state: "detached" });
  await opens();
  await panel.getByRole("radio", { name: "Live" }).click();
  await list.waitFor({ state: "detached" });
});

test("a call that was not made ran nowhere, and is in no recording", { skip }, async () => {
  await open("#/s/s1");
  const card = (tool) => page.getByRole("log", { name: "Timeline" }).getByRole("article", { name: new RegExp(`^${tool} call`) }).last();
  call("browser_click", { index: 3 }, {}, { status: "error", text: "The element is gone." });
  await card("browser_click").getByText("Ran in container 3f2a9c").waitFor();
  await card("browser_click").getByRole("link", { name: "In the recording" }).waitFor();
  const where = { wall: "docker", sandbox_id: "3f2a9c", workdir: "/workspace", boot: "b1" };
  for (const [tool, input, text] of [["Bash", {}, "Invalid input: command: must not be empty."], ["browser_hover", {}, "Invalid input: index: is missing."]]) {
    server.tell("s1", "ToolCallStarted", { call_id: tool, tool, input, actor: "agent", where });
    server.tell("s1", "ToolResultRecorded", { call_id: tool, tool, status: "error", text, images: null, display: null, files: null, where, not_made: true, duration: 1e5 });
    await card(tool).getByText(text).waitFor();
    await card(tool).getByRole("link", { name: /ago/ }).waitFor();
    assert.equal(await card(tool).getByText(/Ran in|3f2a9c|In the recording/).count(), 0, tool);
  }
  call("browser_back", {}, {}, { status: "lost", text: "Sandbox not running: the sandbox is stopped. Nothing was done.", not_made: true });
  await card("browser_back").getByText("Nothing was done").waitFor();
  await card("browser_back").getByRole("link", { name: /ago/ }).waitFor();
  assert.equal(await card("browser_back").getByText(/Ran in|3f2a9c|In the recording|while this ran/).count(), 0, "lost");
});

test("a card says what was done in the browser, shows it, and what the page did meanwhile", { skip }, async () => {
  await open("#/s/s1");
  const log = page.getByRole("log", { name: "Timeline" });
  const card = (tool) => log.getByRole("article", { name: new RegExp(`^${tool} call`) }).last();
  const at = new Date().toISOString();
  const hostile = "<script>alert(1)</script>\x1b]8;;http://evil.example\x07";
  call("browser_click", { index: 3 }, { target: '<button#save> "Save"', notices: [{ seq: 1, at, kind: "tab_opened", tab: 2, text: `Tab 2 opened: ${hostile}` }] }, { text: Array.from({ length: 60 }, (_, i) => `line ${i} ${hostile}`).join("\n") });
  await card("browser_click").getByText("Click 3 button “Save”").waitFor();
  await card("browser_click").getByText("Harbour Tickets · tickets.example").waitFor();
  await card("browser_click").getByText("Tab 2 opened: <script>").waitFor(); // folded, too
  await card("browser_click").getByRole("button").first().click();
  await card("browser_click").getByText("line 3 <script>").waitFor();
  await card("browser_click").getByRole("button", { name: "Show 48 more lines" }).click();
  await card("browser_click").getByText("line 59 <script>").waitFor();
  assert.equal(await log.locator("a[href*=evil], script").count(), 0);

  call("browser_screenshot", { index: 3 }, { picture: { width: 96, height: 54, scale: 0.5 } }, { images: [{ media_type: "image/png", data: PNG }] });
  const shot = card("browser_screenshot").getByRole("button", { name: /^Enlarge the picture/ });
  await shot.click();
  await page.getByRole("dialog").getByRole("img").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });

  call("browser_type", { index: 4, text: "hunter2" }, { target: "<input#pw>", secret: true });
  await card("browser_type").getByText("Type a secret into 4 field #pw").waitFor();
  call("browser_downloads", {}, { downloads: [{ id: "1", name: "a.txt", path: "/home/kim/Downloads/a.txt", url: "", state: "done", received: 47, total: 47, started: at }] });
  await card("browser_downloads").getByRole("button").first().click();
  await card("browser_downloads").getByText("/home/kim/Downloads/a.txt").waitFor();
  call("browser_console", {}, { console: [{ at, level: "error", text: "it broke", url: "https://tickets.example/a.js", line: 3 }] });
  await card("browser_console").getByRole("button").first().click();
  await card("browser_console").getByText("it broke").waitFor();

  server.tell("s1", "BrowserControlChanged", { viewer: "person", cause: "taken", until: new Date(Date.now() + 300_000).toISOString() });
  await log.getByText(/A person took control of the browser for [45] min/).waitFor();
  call("browser_click", { index: 5 }, { refused: "held" }, { status: "error", text: "a person has taken control of the browser", not_made: true });
  await card("browser_click").getByText("Not done: a person had control of the browser.").waitFor();
  assert.equal(await card("browser_click").getByText(/Ran in|3f2a9c|In the recording/).count(), 0, "it was not made");
  server.tell("s1", "BrowserControlChanged", { viewer: "person", cause: "given_back" });
  await log.getByText("Control of the browser went back to the agent").waitFor();
  server.tell("s1", "BrowserControlChanged", { viewer: "person", cause: "ended" });
  await log.getByText("The browser ended, and a person's control with it").waitFor();
  assert.equal(await log.getByText("hunter2").count(), 0);
  assert.deepEqual(await audit(page, "the cards", { within: "[role=log]" }), []);
  await card("browser_click").getByRole("link", { name: "Browser", exact: true }).click();
  await page.waitForURL(/\/browser$/);
});
