// Terminals and files of real sandboxes.
import assert from "node:assert/strict";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { until } from "./browser.mjs";
import { again, dataDir, docker, folder, look, script, serve, setUp, skip, walls } from "./program.mjs";

setUp();

const rows = (page) => page.locator(".xterm-rows:visible").last();
/** says waits for a line of the terminal, without what was typed to get it. */
const says = (page, text, within = 30_000) => rows(page).getByText(text).first().waitFor({ timeout: within });

/** type writes a line into the terminal that has the focus. */
async function type(page, line) {
  await page.locator(".xterm-helper-textarea:visible").last().focus();
  await page.keyboard.type(line);
  await page.keyboard.press("Enter");
}

/** size asks the kernel for the terminal's size. */
async function size(page, mark) {
  await type(page, `echo "${mark}=$(stty size)="`);
  const line = rows(page).getByText(new RegExp(`${mark}=\\d+ \\d+=`)).last();
  await line.waitFor();
  const [, r, c] = new RegExp(`${mark}=(\\d+) (\\d+)=`).exec(await line.innerText());
  return { rows: Number(r), cols: Number(c) };
}

for (const { wall, part } of walls) {
  test(`a shell behind the ${wall} wall outlives its view, the page and the server, and ends when it is closed`, { skip: skip(part), timeout: 120_000 }, async () => {
    const data = dataDir();
    let server = await serve(data);
    const { id } = await server.opened({ title: "Shells", workspace: folder("ws"), spec: { wall } });
    const page = await look(server, { at: `#/s/${id}/container` });
    await page.locator("#panel-container").getByRole("button", { name: "Open shell" }).click();
    await page.waitForURL(/\/terminal/);
    await rows(page).waitFor();
    await type(page, "kept=here; echo a$((40+2))b");
    await says(page, "a42b");

    // The kernel's size follows the panel's.
    const small = await size(page, "one");
    await page.getByRole("separator", { name: "Width of the panels" }).focus();
    for (let i = 0; i < 8; i++) await page.keyboard.press("ArrowLeft");
    const wide = await until(async () => {
      const now = await size(page, `w${Math.random().toString(36).slice(2, 6)}`);
      return now.cols > small.cols + 5 && now;
    }, "a wider terminal");
    const [known] = await server.call("GET", `/sessions/${id}/terminals`);
    assert.deepEqual({ rows: known.rows, cols: known.cols }, wide);

    // A second window sees the same, and what is typed in either.
    const second = await look(server, { at: `#/s/${id}/terminal` });
    await says(second, "a42b");
    await type(second, "echo from $((1+1)) windows");
    await says(page, "from 2 windows");
    await second.close();

    await page.reload();
    await says(page, "from 2 windows");
    await type(page, "echo is:$kept:1");
    await says(page, "is:here:1");

    await server.kill();
    server = await again(server, data);
    await page.getByText("The server does not answer.").waitFor({ state: "detached" });
    await until(async () => {
      await type(page, "echo is:$kept:2");
      return says(page, "is:here:2", 2_000).then(() => true, () => false);
    }, "the same shell after the server's restart");

    // Opened from the tab as well.
    await page.getByRole("button", { name: "New terminal" }).click();
    await until(async () => (await server.call("GET", `/sessions/${id}/terminals`)).length === 2, "a second terminal");
    const other = page.getByRole("tab", { name: / 2$/ });
    await other.waitFor();
    await page.waitForFunction(() => document.activeElement?.classList.contains("xterm-helper-textarea"));
    const nap = `12${Math.floor(Math.random() * 1e6)}`;
    await type(page, `sleep ${nap} & sleep ${nap} & echo st''arted`);
    await says(page, "started");
    const naps = async () => (await server.bash(id, `grep -la ${nap} /proc/[0-9]*/cmdline 2>/dev/null | grep -v self | wc -l`)).text;
    assert.doesNotMatch(await naps(), /^0/);
    await page.getByRole("button", { name: /^Close .* 2$/ }).click();
    await page.getByRole("button", { name: "Close terminal" }).click();
    await until(async () => (await server.call("GET", `/sessions/${id}/terminals`)).length === 1, "it is closed");
    // It is not listed any more before all of it has ended.
    await until(async () => {
      const { text } = await server.bash(id, `for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null | grep -q '^sleep ${nap}' && echo left; done; echo looked`);
      assert.match(text, /looked/);
      return !/left/.test(text);
    }, "what was started in it has ended");
  });
}

test("hostile output in a real terminal does nothing", { skip: skip("docker"), timeout: 60_000 }, async () => {
  const server = await serve(dataDir());
  const workspace = folder("ws");
  writeFileSync(join(workspace, "evil"), "\x1b]52;c;aGFja2Vk\x07\x1b]0;owned\x07\x1b]2;owned\x07\x1b[21t\x1b]8;;javascript:alert(1)\x07bad link\x1b]8;;\x07\r\n");
  const { id } = await server.opened({ title: "Hostile", workspace, spec: { wall: "docker" } });
  const page = await look(server, { at: `#/s/${id}/terminal` });
  await page.getByRole("button", { name: "Open a terminal", exact: true }).click();
  await rows(page).waitFor();
  await page.evaluate(() => navigator.clipboard.writeText("mine"));
  await type(page, "cat evil; echo over''=");
  await says(page, "over=");
  await rows(page).getByText("bad link").click({ force: true });
  assert.match(await page.title(), /Hostile · Glovebox/);
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "mine");
  assert.equal(await page.getByRole("dialog").count(), 0);
  assert.equal(page.context().pages().length, 1);
  // Nothing was typed by the answer to a question either.
  await type(page, "echo cl''ean");
  await says(page, "clean");
});

const PNG = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC", "base64");

for (const { wall, part } of walls) {
  test(`files behind the ${wall} wall: seen, downloaded, and live`, { skip: skip(part), timeout: 90_000 }, async () => {
    const server = await serve(dataDir());
    const workspace = folder("ws");
    const bytes = Buffer.from(Array.from({ length: 70_000 }, (_, i) => (i * 7 + (i >> 8)) & 255));
    writeFileSync(join(workspace, "hello.txt"), "hello from the host\n");
    writeFileSync(join(workspace, "dot.png"), PNG);
    writeFileSync(join(workspace, "core"), bytes);
    const model = script([
      { text: "I write.", calls: [{ tool: "Write", input: { file_path: "by-the-agent.txt", content: "first\n" } }] },
      { text: "Written." },
      { text: "Again.", calls: [{ tool: "Edit", input: { file_path: "by-the-agent.txt", old_string: "first", new_string: "second" } }] },
      { text: "Changed." },
    ]);
    const { id, short_id } = await server.opened({ title: "Files", workspace, model, spec: { wall } });
    const page = await look(server, { at: `#/s/${id}/files`, allow: /status of 422/ }); // of the file that was removed
    const tree = page.getByRole("tree", { name: "Files of the workspace" });
    const item = (name) => tree.getByRole("treeitem", { name });
    const back = () => page.getByRole("button", { name: "Close the file" }).click();

    await item(/^hello.txt/).click();
    await page.getByRole("textbox", { name: "Text of hello.txt" }).getByText("hello from the host").waitFor();
    await back();
    await item(/^dot.png/).click();
    await page.getByText("10 × 10").waitFor();
    await back();
    await item(/^core/).click();
    await page.getByText("Not text").waitFor();
    const saving = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download" }).first().click();
    assert.ok(bytes.equals(readFileSync(await (await saving).path())), "what was saved is what is there");
    await back();

    // Made by another hand inside, and by the agent: there without a click.
    if (wall === "docker") await docker("exec", short_id, "sh", "-c", "echo made inside > /workspace/inside.txt");
    else await server.bash(id, "echo made inside > inside.txt");
    await item(/^inside.txt/).waitFor({ timeout: 20_000 });
    await page.getByRole("textbox", { name: "Message to the agent" }).fill("write");
    await page.keyboard.press("Control+Enter");
    await item(/^by-the-agent.txt/).waitFor({ timeout: 20_000 });
    await item(/^by-the-agent.txt/).click();
    const text = page.getByRole("textbox", { name: "Text of by-the-agent.txt" });
    await text.getByText("first").waitFor();
    await page.getByText("Written.").waitFor();
    await page.getByRole("textbox", { name: "Message to the agent" }).fill("change");
    await page.keyboard.press("Control+Enter");
    await text.getByText("second").waitFor({ timeout: 20_000 });
    await page.getByText(/^Changed at/).waitFor();
    rmSync(join(workspace, "by-the-agent.txt"));
    await page.getByText("It was removed").waitFor({ timeout: 20_000 });
  });
}
