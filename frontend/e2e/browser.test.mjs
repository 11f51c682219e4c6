// The browser panel over canned browsers, which remember all that they are told:
//   npm run build && node --test e2e/browser.test.mjs
import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { audit, browse, note, quickly, skip, until } from "./browser.mjs";
import { stamp } from "./clock.mjs";
import { start, TOKEN } from "./mock.mjs";
import { PAGE } from "./mockbrowser.mjs";

const browser = browse();

let server;
let page;
let faults;

async function fresh(options = {}) {
  const context = await browser().newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce", ...options });
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await context.addInitScript(() => {
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (e) => window.violations.push(`${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}`));
  });
  page = await context.newPage();
  page.setDefaultTimeout(30_000);
  note(page, faults);
}

beforeEach(async () => {
  if (skip) return;
  server = await start();
  faults = [];
  await fresh();
});
afterEach(async () => {
  if (skip) return;
  const violations = await page.evaluate(() => window.violations);
  await page.context().close();
  await server.close();
  assert.deepEqual(violations, [], "the content security policy was not broken");
  assert.deepEqual(faults, []);
});

const panel = () => page.locator("#panel-browser");
const place = () => panel().locator(".place");
/** agents is what says that the agent has the browser. */
const agents = () => panel().locator(".who").getByText(/^The agent has the browser/);
const button = (name) => panel().getByRole("button", { name, exact: true });
const canned = (id = "s1") => server.browser(id);

async function open(where) {
  await page.goto(`${server.url}#token=${TOKEN}`);
  await page.locator("nav").first().waitFor({ state: "attached" });
  await page.goto(`${server.url}#/s/${where}`);
}

/** drawn waits until a picture was drawn: what is in the middle of the canvas is not black. */
const drawn = () =>
  until(
    () =>
      panel()
        .locator("canvas")
        .evaluate((c) => c.width > 100 && c.getContext("2d").getImageData(c.width / 2, c.height / 2, 1, 1).data[0] > 0),
    "a picture",
  );

async function look(where = "s1/browser") {
  await open(where);
  await drawn();
}

async function take() {
  await look();
  await page.keyboard.press("t");
  await panel().getByText("You have control", { exact: true }).waitFor();
  await until(() => page.evaluate(() => document.activeElement?.getAttribute("aria-label") === "Keyboard of the page"), "the picture has the keyboard");
}

/** on is the point of the window where a point of the page is shown. */
async function on(x, y) {
  const box = await place().boundingBox();
  const scale = Math.min(box.width / PAGE.width, box.height / PAGE.height);
  return [box.x + (box.width - PAGE.width * scale) / 2 + x * scale, box.y + (box.height - PAGE.height * scale) / 2 + y * scale];
}

/** mapped is the point of the page that an input means, as the relay works it out. */
function mapped({ x, y, width, height }) {
  const scale = Math.min(width / PAGE.width, height / PAGE.height);
  return [(x - (width - PAGE.width * scale) / 2) / scale, (y - (height - PAGE.height * scale) / 2) / scale];
}

test("a live picture, its tabs and its address; each picture is asked for when the last one is drawn", { skip }, async () => {
  await look();
  await panel().getByRole("tab", { name: "Harbour Tickets: sign in" }).waitFor();
  assert.equal(await panel().getByRole("textbox", { name: "Address" }).inputValue(), "https://tickets.example/sign-in");
  const stop = canned().play(20);
  await panel().getByText(/\d fps · \d+ ms/).waitFor();
  stop();
  await panel().getByText(/^still · \d+ s/).waitFor();
  await until(() => canned().got.at(-1) === canned().seq, "the last picture is on the screen");
  const [join] = canned().joins;
  assert.match(join.viewer, /^window-/);
  const box = await place().boundingBox();
  await until(() => canned().sizes.at(-1)?.width === Math.round(box.width), "the size of the picture is known");
  await page.getByRole("separator", { name: "Width of the panels" }).focus();
  for (let i = 0; i < 4; i++) await page.keyboard.press("ArrowLeft");
  await until(() => canned().sizes.at(-1)?.width > box.width + 50, "and a larger one");
});

test("a person takes control, keeps it longer, and gives it back; the words for it are spoken", { skip }, async () => {
  await look();
  await agents().waitFor();
  await place().click();
  await panel().locator(".nudge").getByText("The agent has the browser.").waitFor();
  assert.deepEqual(canned().inputs, [], "without control nothing reaches the page");
  await panel().locator(".nudge").getByRole("button", { name: "Take control" }).click();
  await panel().getByRole("status").getByText("You have control of the browser.").waitFor({ state: "attached" });
  await panel().getByRole("application", { name: /The page: Harbour Tickets/ }).waitFor();
  await panel().getByText(/^(5:00|4:5\d)/).waitFor();
  canned().tell({ control: { ...canned().control, until: stamp(Date.now() + 30_000) } });
  await panel().getByText(/^0:[23]\d/).waitFor();
  await panel().getByRole("status").getByText("Less than a minute").waitFor({ state: "attached" });
  await button("Extend").click();
  await panel().getByText(/^(5:00|4:5\d)/).waitFor();
  await button("Give back").click();
  await agents().waitFor();
  await panel().getByText("It must look first").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement?.textContent?.trim()), "Take control", "the focus stays where one may go on");
});

test("Esc is the page's, twice gives back; outside the picture too, and the turn goes on", { skip }, async () => {
  await take();
  await page.keyboard.press("Escape");
  await until(() => canned().inputs.some((i) => i.key === "Escape" && i.type === "up"), "the page has it");
  await page.waitForTimeout(700);
  await quickly(page, "Escape", "Escape");
  await agents().waitFor();
  assert.equal(canned().inputs.filter((i) => i.key === "Escape" && i.type === "down").length, 2);
  await page.keyboard.press("t");
  await panel().getByText("You have control", { exact: true }).waitFor();
  await page.keyboard.press("Control+Shift+E");
  await until(() => page.evaluate(() => document.activeElement?.textContent?.trim() === "Give back"), "the focus left the picture");
  await quickly(page, "Escape", "Escape");
  await agents().waitFor();
  await page.keyboard.press("t");
  await panel().getByText("You have control", { exact: true }).waitFor();
  await page.keyboard.press("Control+Shift+E");
  await page.getByRole("radio", { name: "Recording" }).click();
  await panel().locator(".held").waitFor();
  await quickly(page, "Escape", "Escape");
  await until(() => canned().control.viewer === undefined, "from the recording too");
  assert.deepEqual(server.posts.filter((p) => p.path.endsWith("/interrupt")), [], "the turn was not stopped");
});

test("clicks, moves, the wheel and a drag come to the point of the page that is under the pointer", { skip }, async () => {
  await take();
  const at = await on(1000, 300);
  await page.mouse.click(...at);
  await page.mouse.dblclick(...(await on(100, 700)));
  await page.mouse.move(...(await on(640, 400)));
  await page.mouse.wheel(0, 120);
  await until(() => canned().inputs.some((i) => i.kind === "wheel"), "the wheel");
  const downs = canned().inputs.filter((i) => i.type === "down" && i.kind === "mouse");
  assert.deepEqual(downs.map((i) => i.clicks), [1, 1, 2]);
  const near = ([x, y], [px, py]) => assert.ok(Math.hypot(x - px, y - py) < 3, `${x},${y} for ${px},${py}`);
  near(mapped(downs[0]), [1000, 300]);
  near(mapped(downs[1]), [100, 700]);
  assert.ok(downs.every((i) => i.frame > 0 && i.frame <= canned().seq), "each names the picture that it was made on");
  const wheel = canned().inputs.find((i) => i.kind === "wheel");
  near(mapped(wheel), [640, 400]);
  assert.equal(wheel.dy, 120);

  canned().inputs = [];
  await page.mouse.move(...(await on(200, 200)));
  await page.mouse.down();
  await page.mouse.move(...(await on(400, 300)), { steps: 5 });
  const box = await place().boundingBox();
  await page.mouse.move(box.x - 60, box.y + 10);
  await page.mouse.up();
  await until(() => canned().inputs.some((i) => i.type === "up"), "the end of the drag, outside the picture");
  const moves = canned().inputs.filter((i) => i.type === "move" && i.buttons === 1);
  assert.ok(moves.length > 0 && moves.every((i) => i.button === "left"));
  assert.ok(canned().inputs.at(-1).x < 0, "it goes on beyond the picture");
});

test("all keys go to the page: letters, Tab, chords; none does what it does outside", { skip }, async () => {
  await take();
  await page.keyboard.type("Kim n?");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Control+k");
  await page.keyboard.press("Enter");
  await until(() => canned().inputs.some((i) => i.key === "Enter" && i.type === "up"), "the last key");
  assert.equal(canned().text, "Kim n?");
  const downs = canned().inputs.filter((i) => i.type === "down");
  assert.deepEqual(downs.filter((i) => i.key === "Tab").map((i) => [i.code, i.key_code]), [["Tab", 9]]);
  assert.deepEqual(downs.filter((i) => i.key === "a" && i.modifiers === 2).map((i) => i.text), [""]);
  assert.equal(await page.getByRole("dialog").count(), 0, "neither the palette nor the help came up");
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("aria-label")), "Keyboard of the page");
  await page.keyboard.press("F5");
  await page.keyboard.press("Alt+ArrowLeft");
  await until(() => canned().commands.length === 2, "the keys of a browser");
  assert.deepEqual(canned().commands.map((c) => c.kind), ["reload", "back"]);
});

test("an input method, pasted text, and text that no key typed", { skip }, async () => {
  await take();
  const session = await page.context().newCDPSession(page);
  await session.send("Input.imeSetComposition", { text: "にほ", selectionStart: 2, selectionEnd: 2 });
  await session.send("Input.insertText", { text: "日本" });
  await until(() => canned().inputs.some((i) => i.kind === "text"), "what came of it");
  const shown = canned().inputs.filter((i) => i.kind === "compose" && i.text);
  assert.deepEqual([shown[0].text, shown[0].from, shown[0].to], ["にほ", 2, 2]);
  assert.equal(canned().text, "日本");
  await page.keyboard.insertText("🙂");
  await page.evaluate(() => navigator.clipboard.writeText("two\r\nlines"));
  await page.keyboard.press("Control+V");
  await until(() => canned().text === "日本🙂two\nlines", "the clipboard's text");
  assert.ok(!canned().inputs.some((i) => i.key?.toLowerCase() === "v"), "the page's own paste is not asked for");
});

test("what is copied in the page comes here after a question, until the person wants none", { skip }, async () => {
  await take();
  await page.evaluate(() => navigator.clipboard.writeText("mine"));
  canned().selection = "ticket\u202e4711";
  await page.keyboard.press("Control+C");
  const dialog = page.getByRole("dialog", { name: "Copy to your clipboard?" });
  await dialog.getByText("ticket⟨U+202E⟩4711").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "mine");
  await dialog.getByRole("button", { name: "Copy, and do not ask again" }).click();
  await until(async () => (await page.evaluate(() => navigator.clipboard.readText())) === "ticket\u202e4711", "it is copied");
  await until(() => page.evaluate(() => document.activeElement?.getAttribute("aria-label") === "Keyboard of the page"), "the picture has the keyboard again");
  canned().selection = "another";
  await page.keyboard.press("Control+X");
  await until(async () => (await page.evaluate(() => navigator.clipboard.readText())) === "another", "the next one at once");
  assert.ok(canned().inputs.some((i) => i.key === "x" && i.modifiers === 2), "the page cuts it");
});

test("a finger scrolls and presses", { skip }, async () => {
  await page.context().close();
  await fresh({ hasTouch: true, viewport: { width: 1280, height: 800 } });
  await take();
  await page.touchscreen.tap(...(await on(300, 300)));
  await until(() => canned().inputs.filter((i) => i.kind === "touch").length >= 2, "a tap");
  const [down, up] = canned().inputs.filter((i) => i.kind === "touch");
  assert.deepEqual([down.type, up.type], ["start", "end"]);
  const [x, y] = mapped({ ...down, ...down.points[0] });
  assert.ok(Math.hypot(x - 300, y - 300) < 3, `${x},${y}`);
});

test("tabs and the address line are worked by who has control", { skip }, async () => {
  await look();
  await panel().getByRole("tab", { name: "Timetable" }).dispatchEvent("click"); // they say that they are disabled
  await button("Back").dispatchEvent("click");
  await page.waitForTimeout(100);
  assert.deepEqual(canned().commands, []);
  await page.keyboard.press("t");
  await panel().getByText("You have control", { exact: true }).waitFor();
  await panel().getByRole("tab", { name: "Timetable" }).click();
  await until(() => panel().getByRole("tab", { name: "Timetable", selected: true }).count(), "it is shown");
  await button("New tab").click();
  await panel().getByRole("tab", { name: "New tab", selected: true }).waitFor();
  const address = panel().getByRole("textbox", { name: "Address" });
  await address.fill("example.com/a b");
  await page.keyboard.press("Enter");
  await until(() => canned().commands.at(-1)?.url === "example.com/a b", "it is opened");
  await address.fill("file:///etc/passwd");
  await page.keyboard.press("Enter");
  await panel().getByRole("alert").getByText("only http and https pages are opened").waitFor();
  await address.fill("nonsense");
  await page.keyboard.press("Escape");
  assert.notEqual(await address.inputValue(), "nonsense");
  await button("Close the tab").click();
  await until(() => canned().commands.at(-1)?.kind === "close", "it is closed");
});

test("a dialog of the page is answered in its place, and shows itself to who looks on", { skip }, async () => {
  await look();
  const opened = { kind: "prompt", text: "Your booking number?\u202e", default: "4711", url: "https://tickets.example/", opened: stamp(), until: stamp(Date.now() + 9_000) };
  canned().tell({ dialog: opened });
  const dialog = panel().getByRole("dialog", { name: "tickets.example asks" });
  await dialog.getByText("Your booking number?⟨U+202E⟩").waitFor();
  await dialog.getByText(/Dismissed in \d s/).waitFor();
  await dialog.getByRole("button", { name: "Take control to answer" }).click();
  await dialog.getByRole("button", { name: "OK" }).waitFor();
  const answer = dialog.getByRole("textbox", { name: "Answer" });
  assert.equal(await answer.inputValue(), "4711");
  await answer.fill("4712");
  canned().tell({}, { kind: "tab_opened", text: "news of another tab" });
  await panel().locator(".news").getByText("news of another tab").waitFor();
  assert.equal(await answer.inputValue(), "4712", "news of the browser leave what was typed alone");
  await page.keyboard.press("Enter");
  await until(() => canned().commands.some((c) => c.kind === "answer" && c.accept && c.text === "4712"), "the answer");
  await dialog.waitFor({ state: "detached" });
  canned().tell({ dialog: { ...opened, default: "first", text: "And a name?" } });
  await until(async () => (await answer.inputValue()) === "first", "its own answer");
  canned().tell({ dialog: { ...opened, kind: "confirm", text: "Really?", opened: stamp(Date.now() + 1) } });
  await dialog.getByText("Really?").waitFor();
  await page.keyboard.press("Escape");
  await until(() => canned().commands.some((c) => c.kind === "answer" && !c.accept), "Esc cancels");
});

test("a dialog is answered beside the page's text too, where there is no room for the picture", { skip }, async () => {
  await page.route("**/browser/outline", (route) => route.fulfill({ json: { tab: { ...canned().tabs[0] }, cut: false, nodes: [{ depth: 0, role: "RootWebArea", name: "Harbour Tickets" }] } }));
  await take();
  await page.keyboard.press("Control+Shift+E");
  await page.getByRole("radio", { name: "Text" }).click();
  await place().waitFor({ state: "hidden" });
  canned().tell({ dialog: { kind: "confirm", text: "Really?", default: "", url: "https://tickets.example/", opened: stamp(), until: stamp(Date.now() + 9_000) } });
  await panel().getByRole("dialog").getByRole("button", { name: "OK" }).click();
  await until(() => canned().commands.some((c) => c.kind === "answer" && c.accept), "the answer");
  await until(() => page.evaluate(() => document.activeElement?.textContent?.trim() === "Give back"), "the keyboard is where one may go on");
});

test("what happens by itself is told, counted, listed, and downloads lead to their files", { skip }, async () => {
  server.put("s1", "/home/kim/Downloads/ticket-4711.pdf", Buffer.from("%PDF-1.7\n\0"));
  await look();
  canned().tell({}, { kind: "tab_opened", text: 'a new tab opened: "Timetable"', url: "https://tickets.example/timetable" });
  canned().tell({}, { kind: "download", text: "ticket-4711.pdf was downloaded (81 kB)" });
  await panel().locator(".news").getByText("ticket-4711.pdf was downloaded").waitFor();
  await button("What happened, and downloads (2 new ones)").click();
  const list = panel().getByRole("region", { name: "What happened in the browser" });
  await list.getByText('a new tab opened: "Timetable"').waitFor();
  await list.getByText("ticket-4711.pdf", { exact: true }).waitFor();
  await list.getByText("79 KiB · /home/kim/Downloads/ticket-4711.pdf").waitFor();
  await until(async () => (await button("What happened, and downloads").count()) === 1, "nothing is new");
  await list.getByRole("button", { name: "Show ticket-4711.pdf in the files" }).click();
  await page.waitForURL(/files\/\/home\/kim\/Downloads\/ticket-4711\.pdf/);
  await page.locator("#panel-files").getByText("Not text").waitFor();
});

test("a lost connection dims the picture and comes back, with the control that there was", { skip }, async () => {
  await take();
  server.dropAll();
  await until(() => canned().joins.length > 1, "it is made again");
  assert.equal(canned().joins[1].viewer, canned().joins[0].viewer);
  await panel().getByText("You have control", { exact: true }).waitFor();
  await page.reload();
  await drawn();
  await panel().getByText("You have control", { exact: true }).waitFor();
  canned().tell({ lost: "the browser crashed (signal: killed); it is started again" });
  await panel().getByText("There is no browser just now").waitFor();
  canned().tell({ lost: "" });
  await panel().getByText("There is no browser just now").waitFor({ state: "detached" });
  canned().end("The sandbox was released.");
  await panel().getByText("The sandbox was released.").waitFor();
  await button("Look again").click();
  await panel().getByText("The sandbox was released.").waitFor({ state: "detached" });
});

test("nobody looks at what is hidden, and it costs nothing; who has control keeps it", { skip }, async () => {
  await look();
  assert.equal(canned().views.size, 1);
  await quickly(page, "v", "f");
  await until(() => canned().views.size === 0, "the view is closed");
  await quickly(page, "v", "b");
  await until(() => canned().views.size === 1, "and opened again");
  await drawn();
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => window.covered });
    window.covered = true;
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await until(() => canned().views.size === 0, "a hidden window looks at nothing");
  await panel().getByText(/^paused · \d+ s old/).waitFor();
  const uncover = () =>
    page.evaluate((covered) => {
      window.covered = covered;
      document.dispatchEvent(new Event("visibilitychange"));
    }, false);
  await uncover();
  await until(() => canned().views.size === 1, "it looks again");
  await panel().locator("button:enabled", { hasText: "Take control" }).waitFor();
  await page.keyboard.press("t");
  await panel().getByText("You have control", { exact: true }).waitFor();
  await page.keyboard.press("Control+Shift+E");
  await quickly(page, "v", "f");
  await page.waitForTimeout(300);
  assert.equal(canned().views.size, 1, "who has control is still there");
  const joined = canned().joins.length;
  server.dropAll();
  await until(() => canned().joins.length > joined, "and comes back where the connection breaks");
  assert.match(canned().control.viewer ?? "", /^window-/);
});

test("control goes back with the panel, be it closed or another session's", { skip }, async () => {
  await take();
  await page.getByRole("button", { name: "Close the panels" }).click();
  await until(() => canned().views.size === 0, "the view is closed");
  assert.equal(canned().control.viewer, undefined, "control went back first");
  await page.evaluate(() => (location.hash = "#/s/s1/browser"));
  await drawn();
  await agents().waitFor();
  assert.equal(await panel().getByRole("alert").count(), 0);
  await page.keyboard.press("t");
  await panel().getByText("You have control", { exact: true }).waitFor();
  await page.evaluate(() => (location.hash = "#/s/s2/browser"));
  await until(() => canned().views.size === 0, "the view is closed again");
  assert.equal(canned().control.viewer, undefined);
});

test("another window has control", { skip }, async () => {
  await look();
  canned().tell({ control: { viewer: "window-other", until: stamp(Date.now() + 200_000), look: true } });
  await panel().getByText("Another window has control", { exact: true }).waitFor();
  await panel().getByText(/^3:[12]\d/).waitFor();
  await page.keyboard.press("t");
  await panel().getByRole("alert").getByText("Another window has control").waitFor();
  assert.deepEqual(canned().inputs, []);
});

test("what was refused is said until control changes, the next command begins, or it is closed", { skip }, async () => {
  await look();
  const alert = panel().getByRole("alert");
  const other = { viewer: "window-other", until: stamp(Date.now() + 200_000), look: true };
  canned().tell({ control: other });
  await panel().getByText("Another window has control", { exact: true }).waitFor();
  await page.keyboard.press("t");
  await alert.getByText("Give it back there").waitFor();
  canned().tell({ control: { look: true } });
  await agents().waitFor();
  assert.equal(await alert.count(), 0, "it is no longer so");
  await page.keyboard.press("t");
  await panel().getByText("You have control", { exact: true }).waitFor();
  const go = async (url) => {
    await panel().getByRole("textbox", { name: "Address" }).fill(url);
    await page.keyboard.press("Enter");
  };
  await go("file:///etc/passwd");
  await alert.getByText("only http and https pages are opened").waitFor();
  canned().obey = () => undefined; // a page that loads for long
  await go("https://slow.example/");
  await alert.waitFor({ state: "detached" });
  delete canned().obey;
  await go("file:///etc/passwd");
  await alert.getByRole("button", { name: "Dismiss" }).click();
  await alert.waitFor({ state: "detached" });
});

test("control ends with the view: nobody has a browser that has ended, in no window", { skip }, async () => {
  await take();
  const mine = panel().getByText("You have control", { exact: true });
  canned().end("The sandbox was stopped.");
  await panel().getByText("The sandbox was stopped.").waitFor();
  await panel().getByText("Nobody has the browser", { exact: true }).waitFor();
  assert.equal(await mine.count() + (await button("Give back").count()) + (await button("Extend").count()), 0);
  await page.keyboard.type(" t");
  await page.waitForTimeout(100);
  assert.equal(await panel().getByRole("alert").count(), 0, "what is typed on asks for nothing");

  // While it is made again it says so.
  canned().control = { look: false };
  await button("Look again").click();
  await agents().waitFor();
  await button("Take control").click();
  await mine.waitFor();
  canned().view = () => undefined; // the next connection is told nothing
  server.dropAll();
  await panel().getByText("Reconnecting: you had control").waitFor();
  assert.ok(await button("Give back").isDisabled());
});

test("a hold that is over takes no key of who types on", { skip }, async () => {
  await take();
  await page.keyboard.type("ab");
  canned().tell({ control: { look: true } }); // its time was over
  await agents().waitFor();
  await page.keyboard.type("  t ");
  await page.waitForTimeout(200);
  assert.equal(canned().control.viewer, undefined);
});

test("Esc Esc at a question of the page cancels it and gives back, and nothing is red", { skip }, async () => {
  await take();
  canned().tell({ dialog: { kind: "prompt", text: "Your name?", default: "Kim", url: "https://tickets.example/", opened: stamp(), until: stamp(Date.now() + 9_000) } });
  const answer = panel().getByRole("dialog").getByRole("textbox", { name: "Answer" });
  await until(() => answer.evaluate((e) => document.activeElement === e && e.selectionStart === 0 && e.selectionEnd === 3), "what the page proposes is selected");
  await quickly(page, "Escape", "Escape");
  await agents().waitFor();
  assert.equal(canned().commands.filter((c) => c.kind === "answer").length, 1);
  assert.equal(await panel().getByRole("alert").count(), 0);
});

test("the picture can be pressed from its first pixel, and the splitter beside it be taken", { skip }, async () => {
  await page.addInitScript(() => localStorage.clear());
  await take();
  const splitter = page.getByRole("separator", { name: "Width of the panels" });
  const under = (x, y) => page.evaluate(([x, y]) => document.elementFromPoint(x, y)?.className ?? "", [x, y]);
  const box = await place().boundingBox();
  const y = box.y + box.height / 2;
  for (let dx = 0; dx < 8; dx++) assert.doesNotMatch(await under(box.x + dx + 0.5, y), /splitter/, `${dx} px into the picture`);
  const line = (await splitter.boundingBox()).x;
  let wide = 0;
  for (let x = line - 12; x < line + 12; x++) if (/splitter/.test(await under(x + 0.5, y))) wide++;
  assert.ok(wide >= 8, `${wide} px take the splitter`);
  for (const x of [0.5, 2.5]) {
    const before = canned().inputs.length;
    await page.mouse.click(box.x + x, y);
    await until(() => canned().inputs.slice(before).some((i) => i.kind === "mouse" && i.type === "down"), "the press comes");
    const down = canned().inputs.slice(before).find((i) => i.type === "down");
    assert.ok(Math.abs(down.x - x) < 1, `at ${down.x}`);
  }
});

test("of many tabs the one that is shown is to be seen", { skip }, async () => {
  await look();
  const tabs = Array.from({ length: 12 }, (_, i) => ({ ...canned().tabs[0], number: i + 1, title: `Page ${i + 1}`, active: i === 11 }));
  canned().tell({ tabs });
  const last = panel().getByRole("tab", { name: "Page 12" });
  await until(() => last.evaluate((e) => {
    const [t, s] = [e.getBoundingClientRect(), e.parentElement.getBoundingClientRect()];
    return t.left >= s.left - 1 && t.right <= s.right + 1;
  }), "it is scrolled to");
});

test("an agent that asks for hands is answered from the panel", { skip }, async () => {
  await look();
  server.change("s1", { status: "waiting", waiting: [{ call_id: "c9", tool: "browser_ask_person", kind: "hands", reason: "", text: "Please sign in for me.", options: null }] });
  const asked = panel().getByRole("region", { name: "The agent asks for your hands" });
  await asked.getByText("Please sign in for me.").waitFor();
  await asked.getByRole("button", { name: "Take control" }).click();
  await panel().getByText("You have control", { exact: true }).waitFor();
  await asked.getByRole("button", { name: "Done" }).click();
  await until(() => server.posts.some((p) => p.path === "/api/v1/sessions/s1/answers/c9" && p.body.declined === false), "the answer");
  assert.equal(canned().control.viewer, undefined, "control was given back first");
});

test("the same is so from the question in the timeline", { skip }, async () => {
  await take();
  server.tell("s1", "UserQuestionRequested", { call_id: "c8", tool: "browser_ask_person", question: { kind: "hands", text: "Please sign in for me.", options: null, reason: "" } });
  await page.getByRole("article", { name: /^Your hands in the browser/ }).getByRole("button", { name: "Done" }).click();
  await until(() => server.posts.some((p) => p.path === "/api/v1/sessions/s1/answers/c8"), "the answer");
  assert.equal(canned().control.viewer, undefined, "control was given back first");
});

test("a page that came over plain HTTP from another machine shows it too", { skip }, async () => {
  // What such a page does not have.
  await page.addInitScript(() => {
    delete Crypto.prototype.randomUUID;
    delete Navigator.prototype.clipboard;
  });
  await take();
  canned().selection = "4711";
  await page.keyboard.press("Control+C");
  await page.getByRole("dialog", { name: "Copy to your clipboard?" }).getByRole("button", { name: "Copy", exact: true }).click();
  await page.getByText("This browser keeps its clipboard to itself.").waitFor();
});

test("the browser is stopped after a question, and started again", { skip }, async () => {
  await look();
  await button("What happened, and downloads").click();
  await button("Stop the browser").click();
  const question = page.getByRole("dialog", { name: "Stop the browser?" });
  await question.getByRole("button", { name: "Cancel" }).click();
  assert.equal(canned().state, "running");
  await button("Stop the browser").click();
  await question.getByRole("button", { name: "Stop the browser" }).click();
  await panel().getByText("The browser was stopped.").waitFor();
  await button("Look again").click();
  await panel().getByText("The browser was stopped.").waitFor({ state: "detached" });
});

test("where there is no picture it says why, and what helps", { skip }, async () => {
  await open("s2/browser");
  await panel().getByText("The browser is not running").waitFor();
  await button("Start the browser").click();
  await drawn();
  assert.ok(server.posts.some((p) => p.path === "/api/v1/sessions/s2/browser/start"));
  server.machine.unbuilt = true;
  await open("s3/browser");
  await panel().getByText("The sandbox is stopped").waitFor();
  await button("Start").click();
  await until(() => server.posts.some((p) => p.path === "/api/v1/sessions/s3/start"), "the command");
  await panel().getByText("No browser in this sandbox").waitFor();
  await panel().getByText("there is no Chromium in this image", { exact: true }).waitFor();
  const looked = await panel().getByText(/^looked for chromium, /).boundingBox();
  assert.ok(looked.height < 24, `where it was looked for takes ${looked.height} px`);
  const words = await panel().getByText(/^The standard image is not here yet/).boundingBox();
  assert.ok(words.width > 200, `its words have ${words.width} px`);
  await panel().getByRole("button", { name: "Build the standard image" }).click();
  await panel().getByText(/glovebox\/sandbox:0.1 was built/).waitFor();
  await open("s4/browser");
  await panel().getByText("No browser on the host").waitFor();
  await open("s5/browser");
  await panel().getByText("The sandbox is lost").waitFor();
  Object.assign(server.browser("s2"), { state: "running", live: false });
  await open("s2/browser");
  await page.reload();
  await panel().getByText("This browser gives no picture").waitFor();
  server.browser("s1").refusal = ["browser_failed", "Chromium did not start: no space left on device"];
  await open("s1/browser");
  await page.reload();
  await panel().getByText("Chromium did not start: no space left on device").waitFor();
  server.browser("s1").refusal = null;
  await button("Try again").click();
  await drawn();
});

test("the palette and a window of its own have the browser too", { skip }, async () => {
  const run = async (name) => {
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Find an action or a session" }).fill(name);
    await page.getByRole("option", { name, selected: true }).waitFor();
    await page.keyboard.press("Enter");
  };
  await open("s1");
  await run("Show the browser");
  await drawn();
  await run("Take control");
  await panel().getByText("You have control", { exact: true }).waitFor();
  const [window] = await Promise.all([page.context().waitForEvent("page"), page.getByRole("button", { name: "Open in its own window" }).click()]);
  await window.getByText("Another window has control", { exact: true }).waitFor();
  assert.match(window.url(), /#\/p\/s1\/browser/);
  await window.close();
});

for (const colorScheme of ["light", "dark"]) {
  for (const width of [1280, 360]) {
    test(`axe finds nothing serious in the ${colorScheme} panel at ${width} px`, { skip }, async () => {
      await page.context().close();
      await fresh({ colorScheme, bypassCSP: true, viewport: { width, height: 780 } }); // axe itself adds styles
      const clean = async () => assert.deepEqual(await audit(page, "the panel", { within: "#panel-browser" }), []);
      await look();
      await clean();
      await button("What happened, and downloads").click();
      canned().tell({}, { kind: "download", text: "ticket-4711.pdf was downloaded" });
      await clean();
      await button("Close the list").click();
      await button("Take control").click();
      await panel().getByText("You have control", { exact: true }).waitFor();
      await clean();
      canned().tell({ dialog: { kind: "prompt", text: "Your booking number?", default: "", url: "https://tickets.example/", opened: stamp(), until: stamp(Date.now() + 9_000) } });
      await panel().getByRole("dialog").waitFor();
      await clean();
      canned().end("The sandbox was released.");
      await panel().getByText("The sandbox was released.").waitFor();
      await clean();
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing sticks out");
    });
  }
}
