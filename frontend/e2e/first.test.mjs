// The first minute with the real program, by mouse and by keyboard alone, and the page's addresses, weight and access.
import assert from "node:assert/strict";
import { existsSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { bash, current, dataDir, docker, folder, header, look, script, serve, setUp, shows, skip, timeline } from "./program.mjs";
import { audit, becomes, quickly } from "./browser.mjs";

setUp();

test("first run: checks, the demo in one click to its end, and stopped in its middle", { skip: skip("docker"), timeout: 120_000 }, async () => {
  const data = dataDir();
  assert.ok(!existsSync(data) && existsSync(dirname(data)));
  const server = await serve(data);
  const page = await look(server);
  await page.getByRole("heading", { name: "A sealed container for your agent" }).waitFor();
  const marks = page.getByRole("list", { name: "Walls on this machine" });
  await marks.getByRole("listitem").filter({ hasText: "Docker container" }).waitFor();
  await page.getByRole("link", { name: "All checks" }).first().click();
  const { checks } = await server.call("GET", "/doctor");
  const list = page.getByRole("list", { name: "Checks" });
  for (const c of checks) await list.getByRole("heading", { name: c.name, exact: true }).waitFor();
  await becomes(() => list.getByRole("listitem").count(), checks.length);
  await becomes(() => list.getByText("fine", { exact: true }).count(), checks.filter((c) => c.status === "ok").length);

  await page.goBack();
  await page.getByRole("button", { name: "Try the demo" }).first().click();
  const first = await current(page);
  const log = timeline(page);
  await log.getByText("working: step 3 of 8").waitFor();
  await shows(page, "ready");
  await log.getByText("That was the demo. I").waitFor();
  await header(page).getByText("idle").waitFor();
  await becomes(() => log.getByRole("article", { name: /call, ok$/ }).count(), 11);

  await quickly(page, "g", "h");
  await page.getByRole("heading", { name: "Pick up where you left off" }).waitFor();
  await page.getByRole("main").getByRole("button", { name: "Try the demo" }).click();
  await page.waitForURL((url) => url.hash.startsWith("#/s/") && !url.hash.includes(first));
  const second = await current(page);
  await log.getByText("working: step 2 of 8").waitFor();
  const { short_id } = await server.show(second);
  assert.match(await docker("top", short_id), /sleep|sh/);
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByText(/killed .*0 processes left, \d+ ms/).first().waitFor();
  await header(page).getByText(/0 processes left/).waitFor();
  assert.equal((await docker("top", short_id, "-o", "pid,args")).split("\n").length, 2, "the guest alone is left");
});

test("the demo and an approval with the keyboard alone", { skip: skip("docker"), timeout: 90_000 }, async () => {
  const server = await serve(dataDir());
  const page = await look(server);
  await page.getByRole("heading", { name: "A sealed container for your agent" }).waitFor();
  /** tabTo goes to a control as a keyboard does. */
  const tabTo = async (name) => {
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press("Tab");
      const label = await page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent?.trim() ?? "");
      if (name.test(label)) return;
    }
    assert.fail(`Tab does not come to ${name}`);
  };
  await tabTo(/^Try the demo$/);
  await page.keyboard.press("Enter");
  const demo = await current(page);
  await timeline(page).getByText("working: step 2 of 8").waitFor();
  await quickly(page, "Escape", "Escape");
  await header(page).getByText(/0 processes left/).waitFor();
  assert.equal((await server.show(demo)).status, "idle");

  const workspace = folder("ws");
  const model = script([bash("touch allowed"), bash("touch refused"), { text: "That is how it is." }]);
  const id = await server.open({ title: "By keys", goal: "go", model, workspace, approvals: "ask", spec: { wall: "docker" } });
  await page.getByRole("heading", { name: "Waiting for you" }).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("By keys");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForURL(new RegExp(`/s/${id}`));
  const waiting = timeline(page).getByRole("article", { name: "Bash call, waiting for you" });
  await waiting.getByText("touch allowed").first().waitFor();
  await page.keyboard.press("]");
  await page.keyboard.press("a");
  await waiting.getByText("touch refused").first().waitFor();
  assert.ok(existsSync(join(workspace, "allowed")));
  await page.keyboard.press("]");
  await page.keyboard.press("d");
  await page.keyboard.type("no, thanks");
  await page.keyboard.press("Enter");
  await timeline(page).getByText("That is how it is.").waitFor();
  assert.ok(!existsSync(join(workspace, "refused")));
});

test("addresses lead back and forward; a session is renamed, found and archived", { skip: skip("bwrap"), timeout: 60_000 }, async () => {
  const server = await serve(dataDir());
  const workspace = folder("ws");
  mkdirSync(join(workspace, "deep"));
  const model = script([bash("echo here it is > deep/file.txt; cat deep/file.txt"), { text: "Done." }]);
  const a = await server.open({ title: "First of two", goal: "go", model, workspace, spec: { wall: "namespace" } });
  const b = await server.open({ title: "Second of two", goal: "", workspace: folder("ws"), spec: { wall: "namespace" } });
  const page = await look(server, { at: `#/s/${a}` });
  await timeline(page).getByText("Done.").waitFor();
  const listing = await server.call("GET", `/sessions/${a}/files`);
  await page.goto(`${server.url}/#/s/${a}/files/${encodeURI(`${listing.path}/deep/file.txt`)}`);
  await page.getByRole("textbox", { name: "Text of file.txt" }).getByText("here it is").waitFor();
  await page.getByRole("tab", { name: "Container" }).click();
  await page.waitForURL(/\/container$/);
  const link = timeline(page).getByTitle("Link to this call").first();
  await link.click();
  await page.waitForURL(/\?call=/);
  await page.getByRole("link", { name: "Second of two" }).click();
  await page.waitForURL(new RegExp(`/s/${b}`));
  await page.goBack();
  await page.waitForURL(/\?call=/);
  await page.goBack();
  await page.waitForURL(/\/container$/);
  await page.goBack();
  await page.getByRole("textbox", { name: "Text of file.txt" }).getByText("here it is").waitFor();
  await page.goForward();
  await page.waitForURL(/\/container$/);
  await page.goto(`${server.url}/#/s/nobody`);
  await page.getByRole("heading", { name: "This session is not here" }).waitFor();

  const nav = page.getByRole("navigation", { name: "Sessions" });
  const row = (name) => nav.getByRole("link", { name });
  await row("First of two").focus();
  await page.keyboard.press("F2");
  await nav.getByRole("textbox", { name: "Title" }).fill("A better name");
  await page.keyboard.press("Enter");
  await row("A better name").waitFor();
  assert.equal((await server.show(a)).title, "A better name");
  await page.keyboard.press("/");
  await page.keyboard.type("better");
  await row("Second of two").waitFor({ state: "detached" });
  await row("A better name").waitFor();
  await page.keyboard.press("Escape");
  await row("Second of two").hover();
  await nav.getByRole("button", { name: "Actions for Second of two" }).click();
  await page.getByRole("menuitem", { name: /Archive/ }).click();
  await row("Second of two").waitFor({ state: "detached" });
  assert.equal((await server.show(b)).archived, true);
  await nav.getByLabel("State").selectOption("archived");
  await row("Second of two").waitFor();
  await page.reload();
  await row("A better name").waitFor();
  assert.equal(await row("Second of two").count(), 0);
});

test("what the first page loads weighs at most 150 kB", { skip: skip(), timeout: 60_000 }, async () => {
  const server = await serve(dataDir());
  const page = await look(server);
  await page.getByRole("button", { name: "Try the demo" }).first().waitFor();
  const html = await (await fetch(server.url)).text();
  const named = [...html.matchAll(/(?:src|href)="(\.?\/?[^"#]+\.(?:js|css|svg))"/g)].map((m) => new URL(m[1], server.url).href);
  assert.ok(named.some((u) => u.endsWith(".js")) && named.some((u) => u.endsWith(".css")), "the page names its script and style");
  // What its scripts import before anything is opened comes too.
  const loaded = await page.evaluate(() => performance.getEntriesByType("resource").map((e) => e.name));
  const files = [...new Set([server.url, ...named, ...loaded.filter((u) => !u.includes("/api/"))])];
  let total = 0;
  const each = [];
  for (const url of files) {
    const size = gzipSync(Buffer.from(await (await fetch(url)).arrayBuffer()), { level: 9 }).length;
    each.push(`${new URL(url).pathname} ${size}`);
    total += size;
  }
  assert.ok(total <= 150_000, `${total} bytes:\n${each.join("\n")}`);
  assert.ok(!files.some((u) => /Terminal|CodeView/.test(u)), "no heavy panel among them");
});

for (const colorScheme of ["light", "dark"]) {
  test(`axe finds nothing serious in any real view, ${colorScheme}`, { skip: skip("docker"), timeout: 120_000 }, async () => {
    const server = await serve(dataDir());
    const model = script([
      { text: "# A title\n\nI *look* around, `so`.\n\n```sh\nls\n```", calls: [{ tool: "Bash", input: { command: "ls -la; false" } }, { tool: "Write", input: { file_path: "a.txt", content: "one\n" } }] },
      { text: "", calls: [{ tool: "Edit", input: { file_path: "a.txt", old_string: "one", new_string: "two" } }, { tool: "Read", input: { file_path: "a.txt" } }, { tool: "Glob", input: { pattern: "*" } }] },
      { text: "Done." },
    ]);
    const id = await server.open({ title: "Seen", goal: "go", model, workspace: folder("ws"), spec: { wall: "docker" } });
    const ask = await server.open({ title: "Asks", goal: "go", model: script([bash("rm -rf /tmp/x")]), workspace: folder("ws"), approvals: "ask", spec: { wall: "docker" } });
    const page = await look(server, { colorScheme, bypassCSP: true });
    const found = [];
    const at = async (hash, what) => {
      await page.goto(`${server.url}/${hash}`);
      await what().first().waitFor();
      found.push(...(await audit(page, hash)));
    };
    await page.getByRole("link", { name: "Asks" }).first().waitFor();
    await at("#/", () => page.getByRole("heading", { name: "Pick up where you left off" }));
    await at("#/doctor", () => page.getByRole("list", { name: "Checks" }));
    await at(`#/s/${id}`, () => page.getByText("Done."));
    await at(`#/s/${ask}`, () => page.getByRole("button", { name: "Allow once" }));
    await at(`#/s/${id}/container`, () => page.getByRole("meter", { name: "Memory" }));
    await at(`#/s/${id}/files`, () => page.getByRole("treeitem", { name: /a.txt/ }));
    await page.getByRole("treeitem", { name: /a.txt/ }).click();
    await page.getByRole("textbox", { name: "Text of a.txt" }).waitFor();
    found.push(...(await audit(page, "an open file")));
    await at(`#/s/${id}/terminal`, () => page.getByRole("button", { name: "Open a terminal", exact: true }));
    await page.getByRole("button", { name: "Open a terminal", exact: true }).click();
    await page.locator(".xterm-rows").waitFor();
    found.push(...(await audit(page, "an open terminal")));
    await header(page).getByRole("button", { name: /^isolated/ }).click();
    await page.getByText(/of 7 differ/).waitFor();
    found.push(...(await audit(page, "both sides of the wall")));
    await page.keyboard.press("Escape");
    await at("#/new", () => page.getByRole("dialog", { name: "New session" }).getByText("Wall", { exact: true }));
    await page.getByRole("dialog").getByRole("button", { name: /mounts and limits/ }).click();
    found.push(...(await audit(page, "all choices of a new session")));
    assert.deepEqual(found, []);
  });
}
