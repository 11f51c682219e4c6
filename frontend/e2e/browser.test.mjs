// What is seen in the browser panel:
//   npm run build && node --test e2e/browser.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { audit, becomes, quickly, skip, until } from "./browser.mjs";
import { button, canned, drawn, fresh, look, panel, place, take } from "./browserpanel.mjs";
import { page, server, show } from "./canned.mjs";
import { stamp } from "./clock.mjs";

test("a live picture, its tabs and its address; each picture is asked for when the last one is drawn", { skip }, async () => {
  await look();
  await panel().getByRole("tab", { name: "Harbour Tickets: sign in" }).waitFor();
  await becomes(() => panel().getByRole("textbox", { name: "Address" }).inputValue(), "https://tickets.example/sign-in");
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
  await becomes(() => canned().views.size, 1);
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
  await show("#/s/s2/browser");
  await panel().getByText("The browser is not running").waitFor();
  await button("Start the browser").click();
  await drawn();
  assert.ok(server.posts.some((p) => p.path === "/api/v1/sessions/s2/browser/start"));
  server.machine.unbuilt = true;
  await show("#/s/s3/browser");
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
  await show("#/s/s4/browser");
  await panel().getByText("No browser on the host").waitFor();
  await show("#/s/s5/browser");
  await panel().getByText("The sandbox is lost").waitFor();
  Object.assign(server.browser("s2"), { state: "running", live: false });
  await show("#/s/s2/browser");
  await page.reload();
  await panel().getByText("This browser gives no picture").waitFor();
  server.browser("s1").refusal = ["browser_failed", "Chromium did not start: no space left on device"];
  await show("#/s/s1/browser");
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
  await show("#/s/s1");
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
