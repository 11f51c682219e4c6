// What a page asks in the browser panel, and what the agent asks of the person:
//   npm run build && node --test e2e/asked.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { becomes, hasFocus, quickly, skip, until } from "./browser.mjs";
import { agents, button, canned, look, panel, place, take } from "./browserpanel.mjs";
import { page, server } from "./canned.mjs";
import { stamp } from "./clock.mjs";

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
  await becomes(() => answer.inputValue(), "4711");
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

test("who takes control to answer has the keyboard in the answer, whichever word of the server comes first", { skip }, async () => {
  for (const tellsFirst of [false, true]) {
    await look();
    Object.assign(canned(), { tellsFirst, control: { look: false } });
    canned().tell({ dialog: { kind: "prompt", text: "Your name?", default: "", url: "https://tickets.example/", opened: stamp(), until: stamp(Date.now() + 60_000) } });
    await panel().getByRole("button", { name: "Take control to answer" }).click();
    const answer = panel().getByRole("dialog").getByRole("textbox", { name: "Answer" });
    await until(() => hasFocus(answer), "the answer has the keyboard");
    for (const done of canned().answers.splice(0)) done();
    canned().tell({}, { kind: "tab_opened", text: `news ${tellsFirst}` });
    await panel().locator(".news").getByText(`news ${tellsFirst}`).waitFor(); // what the server said before is heard
    assert.ok(await hasFocus(answer), "and keeps it");
    canned().tell({ dialog: null, control: { look: true } });
  }
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
