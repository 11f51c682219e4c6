// A person's hands in the browser panel, and who has control:
//   npm run build && node --test e2e/hands.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { becomes, quickly, skip, until } from "./browser.mjs";
import { agents, button, canned, drawn, fresh, look, mapped, on, panel, place, take } from "./browserpanel.mjs";
import { page, server } from "./canned.mjs";
import { stamp } from "./clock.mjs";

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
  await becomes(() => page.evaluate(() => document.activeElement?.textContent?.trim()), "Take control", "the focus stays where one may go on");
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
  await until(() => canned().inputs.some((i) => i.key === "x" && i.modifiers === 2), "the page cuts it");
});

test("a finger scrolls and presses", { skip }, async () => {
  await fresh({ hasTouch: true });
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
  await until(async () => (await address.inputValue()) !== "nonsense", "Esc takes back what was written");
  await button("Close the tab").click();
  await until(() => canned().commands.at(-1)?.kind === "close", "it is closed");
});

test("an address that changes while one is in it is replaced by what one types", { skip }, async () => {
  await take();
  const address = panel().getByRole("textbox", { name: "Address" });
  await address.focus();
  canned().tell({ tabs: canned().tabs.map((t) => (t.active ? { ...t, url: "https://elsewhere.example/" } : t)) });
  await until(async () => (await address.inputValue()) === "https://elsewhere.example/", "it is another");
  await page.keyboard.type("example.com");
  assert.equal(await address.inputValue(), "example.com");
});

test("what one writes into the address line as soon as there is control stays there", { skip }, async () => {
  await look();
  canned().tellsFirst = true;
  await page.keyboard.press("t");
  await panel().getByText("You have control", { exact: true }).waitFor();
  const address = panel().getByRole("textbox", { name: "Address" });
  await address.fill("example.com");
  for (const done of canned().answers.splice(0)) done();
  canned().tell({}, { kind: "tab_opened", text: "news of another tab" });
  await panel().locator(".news").getByText("news of another tab").waitFor(); // the answer came before
  await page.keyboard.press("Enter");
  await until(() => canned().commands.at(-1)?.url === "example.com", "it is opened");
  assert.deepEqual(canned().inputs, [], "nothing of it went to the page");
});

test("control goes back with the panel, be it closed or another session's", { skip }, async () => {
  await take();
  await page.getByRole("button", { name: "Close the panels" }).click();
  await until(() => canned().views.size === 0, "the view is closed");
  assert.equal(canned().control.viewer, undefined, "control went back first");
  await page.evaluate(() => (location.hash = "#/s/s1/browser"));
  await drawn(); // what was drawn before may be shown before there is a view
  await agents().waitFor();
  assert.equal(await panel().getByRole("alert").count(), 0);
  await panel().locator("button:enabled", { hasText: "Take control" }).waitFor();
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
  await alert.waitFor({ state: "detached" }); // it is no longer so
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
  await becomes(async () => (await mine.count()) + (await button("Give back").count()) + (await button("Extend").count()), 0);
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
  await until(() => button("Give back").isDisabled(), "it can be given back by nobody");
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
