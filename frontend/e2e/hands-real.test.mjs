// The Browser panel over the real program and a real browser behind a wall: a person looks on, takes control, signs in,
// and gives it back:
//   make build && npm run e2e
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { quickly, until } from "./browser.mjs";
import { dataDir, folder, look, script, serve, setUp, skip, timeline } from "./program.mjs";

setUp();

const SECRET = "s3cret-only-a-person-knows";
// The page knows it backwards alone: what is found forwards was typed.
const PAGE = `<!doctype html><title>Sign in</title>
<style>body{margin:0} input,button{position:fixed;left:0;width:100%;height:50%;border:0;font-size:40px} input{top:0} button{top:50%}</style>
<input type="password" aria-label="Password"><button onclick="document.title = [...document.querySelector('input').value].reverse().join('') === '${[...SECRET].reverse().join("")}' ? 'Welcome' : 'Wrong'">Go</button>`;

test("a person signs in with their own hands, and what they typed is nowhere but in the page", { skip: skip("bwrap"), timeout: 240_000 }, async () => {
  const data = dataDir();
  const server = await serve(data);
  const workspace = folder("ws");
  writeFileSync(join(workspace, "index.html"), PAGE);
  const { id } = await server.opened({ title: "By hand", goal: "go", model: script([{ text: "I wait." }]), workspace, spec: { wall: "namespace" } });
  await server.bash(id, "python3 -m http.server --bind 127.0.0.1 8000 >/dev/null 2>&1 & for i in $(seq 100); do grep -q ':1F40 00000000:0000 0A' /proc/net/tcp && break; sleep 0.1; done");
  const page = await look(server, { at: `#/s/${id}/browser` });
  page.setDefaultTimeout(60_000);
  const panel = page.locator("#panel-browser");
  await panel.getByRole("button", { name: "Start the browser" }).click();
  const picture = panel.locator("canvas");
  await until(() => picture.evaluate((c) => c.width > 100), "the first picture", 60_000);
  await page.keyboard.press("t");
  await panel.getByText("You have control", { exact: true }).waitFor();
  await panel.getByRole("textbox", { name: "Address" }).fill("http://127.0.0.1:8000/");
  await page.keyboard.press("Enter");
  await panel.getByRole("tab", { name: "Sign in" }).waitFor();

  /** press clicks at a part of the picture, whose bars belong to nobody. */
  const press = async (across, down) => {
    const [box, size] = [await picture.boundingBox(), await picture.evaluate((c) => ({ width: c.width, height: c.height }))];
    const scale = Math.min(box.width / size.width, box.height / size.height);
    await page.mouse.click(box.x + box.width / 2 + (across - 0.5) * size.width * scale, box.y + box.height / 2 + (down - 0.5) * size.height * scale);
  };
  await press(0.5, 0.25);
  await page.keyboard.type(SECRET);
  await press(0.5, 0.75);
  await panel.getByRole("tab", { name: "Welcome" }).waitFor();
  await panel.getByText("still ·").waitFor();

  await press(0.5, 0.25);
  await quickly(page, "Escape", "Escape");
  await panel.getByRole("button", { name: "Take control" }).waitFor();
  const { control, viewers } = await server.call("GET", `/sessions/${id}/browser`);
  assert.deepEqual([control.holder, control.look, viewers], ["", true, 1], "the agent has it, and looks first");
  assert.equal(spawnSync("grep", ["-rlF", SECRET, data], { encoding: "utf8" }).stdout, "", "neither the store nor a recording holds it");

  await server.call("POST", `/sessions/${id}/browser/stop`, {});
  await panel.getByText("The browser was stopped.").waitFor();
});

test("control goes back at once with the panel, and soon with the window, but not with a reload", { skip: skip("bwrap"), timeout: 240_000 }, async () => {
  const server = await serve(dataDir());
  const { id } = await server.opened({ title: "Left", goal: "go", model: script([{ text: "I wait." }]), workspace: folder("ws"), spec: { wall: "namespace" } });
  const page = await look(server, { at: `#/s/${id}/browser` });
  page.setDefaultTimeout(60_000);
  const panel = page.locator("#panel-browser");
  const inControl = panel.getByText("You have control", { exact: true });
  const holder = async () => (await server.call("GET", `/sessions/${id}/browser`)).control.holder;
  await panel.getByRole("button", { name: "Start the browser" }).click();
  const take = panel.getByRole("button", { name: "Take control" });
  await take.click();
  await inControl.waitFor();

  await page.getByRole("button", { name: "Close the panels" }).click();
  await until(async () => (await holder()) === "", "it is the agent's again", 5_000);
  await timeline(page).getByText("Control of the browser went back to the agent").waitFor();

  await page.goto(`${server.url}/#/s/${id}/browser`);
  await take.click();
  await inControl.waitFor();
  await page.reload();
  await inControl.waitFor();
  assert.match(await holder(), /^window-/);

  await page.close();
  await until(async () => (await holder()) === "", "it is the agent's again", 40_000);
});
