// The recording of a browser over a canned server:
//   npm run build && node --test e2e/recording.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { audit, skip, until } from "./browser.mjs";
import { open, page, server } from "./canned.mjs";

const view = () => page.getByRole("region", { name: "Recording", exact: true });
const slider = () => view().getByRole("slider", { name: "Time in the recording" });
const caption = (text) => view().locator(".caption").getByText(text).waitFor();

/** across is where the box begins, as a part of the picture. */
async function across(at, side) {
  const [box, picture] = [await view().locator(".box").boundingBox(), await view().locator("img").boundingBox()];
  return box && picture ? (box[at] - picture[at]) / picture[side] : NaN; // while one of them is not drawn yet
}

async function shown() {
  await open("#/s/s1/browser?moment=b2");
  await view().locator("img").waitFor();
}

test("a person goes back and forth by keyboard, and sees what was done where", { skip }, async () => {
  await shown();
  await caption("click <button> Print (failed)");
  await until(async () => Math.abs((await across("y", "height")) - 300 / 800) < 0.02, "the box is where the element was, on a page that has scrolled");
  await slider().focus();
  await page.keyboard.press("End");
  await caption("Harbour Tickets: ticket 4711");
  await page.keyboard.press("Home");
  await caption(/^Harbour Tickets$/);
  await page.keyboard.press("PageDown");
  await caption("click <a> Sign in");
  server.change("s1", { updated_at: new Date().toISOString() });
  await page.waitForTimeout(500); // news of the session do not move it
  await caption("click <a> Sign in");
  await until(async () => Math.abs((await across("x", "width")) - 1166 / 1280) < 0.02, "the box is where the element was");
  await until(() => view().locator("img").evaluate((e) => Math.abs(e.clientWidth / e.clientHeight - 1.6) < 0.02), "the picture keeps its shape");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await caption("A person had control: nothing is recorded then.");
  await view().locator("img").waitFor({ state: "hidden" });
  await page.keyboard.press("PageDown");
  await caption("click <button> Print (failed)");
  await until(async () => (await slider().getAttribute("aria-valuetext")).includes("click <button> Print"), "the slider says it too");
  await page.keyboard.press("End");
  await caption("Harbour Tickets: ticket 4711");
  await page.keyboard.press("Home");
  await page.keyboard.press("Space");
  await view().getByRole("button", { name: "Pause" }).waitFor();
  await view().getByLabel("Speed").selectOption("8");
  await caption("Harbour Tickets: ticket 4711");
  await view().getByRole("button", { name: "Play" }).waitFor();
  assert.deepEqual(await audit(page, "the recording", { within: "#panel-browser" }), []);
});

test("a card leads to its moment, and back in the history", { skip }, async () => {
  await open("#/s/s1");
  const where = { wall: "docker", container: "3f2a9c1d", boot: "b" };
  for (const call of ["b1", "b9"]) {
    server.tell("s1", "ToolCallStarted", { call_id: call, tool: "browser_click", input: { index: 3 }, actor: "agent", where });
    server.tell("s1", "ToolResultRecorded", { call_id: call, tool: "browser_click", status: "ok", text: "Clicked.", images: null, display: null, files: null, where, duration: 5e6 });
  }
  const cards = page.getByRole("article", { name: /browser_click call/ });
  for (const i of [0, 1]) {
    const head = cards.nth(i).locator("[data-head]");
    await head.waitFor();
    if ((await head.getAttribute("aria-expanded")) !== "true") await head.click();
  }
  await cards.first().getByRole("link", { name: "In the recording" }).click();
  await caption("click <a> Sign in");
  assert.match(page.url(), /browser\?moment=b1$/);
  await cards.nth(1).getByRole("link", { name: "In the recording" }).click();
  await view().getByText("That call is not in the recording").waitFor();
  await page.goBack();
  await view().getByText("That call is not in the recording").waitFor({ state: "detached" });
  await caption("click <a> Sign in");
});

test("it is erased after a question, and nothing of it is shown then", { skip }, async () => {
  await shown();
  await view().getByRole("button", { name: "Erase" }).click();
  await page.getByRole("dialog").getByText("4 pictures").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  assert.ok(!server.recording("s1").asked.includes("erase"));
  await view().getByRole("button", { name: "Erase" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Erase" }).click();
  await view().getByText("The recording was erased").waitFor();
  await view().locator("img").waitFor({ state: "detached" });
  server.recording("s1").frame(601, "After it");
  await caption("After it");
});

test("where nothing is recorded it says why", { skip }, async () => {
  await open("#/s/s2/browser");
  await page.getByRole("radio", { name: "Recording" }).click();
  await view().getByText("Nothing is recorded yet").waitFor();
  server.recording("s2").on = false;
  await view().getByText("Recording is off").waitFor();
});
