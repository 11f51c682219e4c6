// What a hostile or a flooding command must not do to the page, in a real browser:
//   npm run build && npm run e2e
import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { audit, becomes, browse, note, settles, skip, until } from "./browser.mjs";
import { start, TOKEN } from "./mock.mjs";

const browser = browse("--enable-precise-memory-info");

const usage = { input: 0, output: 0, cache_read: 0, cache_write: 0 };
const where = { wall: "docker", sandbox_id: "3f2a9c", workdir: "/workspace", boot: "b1" };
const HTML = "<img src=x onerror=alert(1)><script>alert(2)</script><iframe src=javascript:alert(3)></iframe>";
const EVIL = `${HTML}\x1b[31mred\x1b[0m\x1b]0;t\x07\x1b]8;;javascript:alert(1)\x07x\x1b]8;;\x07\x1b[2J\x9b31m\x9d0;t\x9c\x1bP1$q\x1b\\\x1b_app\x1b\\\u202egnp.exe`;

let server;
let page;
let faults;
let dialogs;

beforeEach(async () => {
  if (skip) return;
  server = await start();
  faults = [];
  dialogs = [];
  const context = await browser().newContext({ viewport: { width: 1280, height: 800 } });
  page = await context.newPage();
  page.setDefaultTimeout(30_000);
  page.on("dialog", (d) => (dialogs.push(d.message()), d.dismiss()));
  note(page, faults);
  page.on("request", (r) => !r.url().startsWith(server.url) && !r.url().startsWith("blob:") && faults.push(`a request to ${r.url()}`));
});
afterEach(async () => {
  if (skip) return;
  await page.context().close();
  await server.close();
});

/** unfold opens every card of the window. */
const unfold = () =>
  page.evaluate(async () => {
    for (const head of document.querySelectorAll("[data-head][aria-expanded=false]")) head.click();
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  });

/** clicks opens and closes a card some times, and returns how long the page took to answer, the middle of it. */
const clicks = () =>
  page.evaluate(async () => {
    const head = document.querySelector("[data-head]");
    const took = [];
    for (let i = 0; i < 8; i++) {
      const begun = performance.now();
      head.click();
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      took.push(performance.now() - begun);
      await new Promise((done) => setTimeout(done, 60));
    }
    return took.sort((a, b) => a - b)[4];
  });

async function open(id, theme = "light") {
  await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
  await page.goto(`${server.url}#token=${TOKEN}`);
  await page.getByRole("navigation", { name: "Sessions" }).getByText("Upgrade the linter").waitFor();
  await page.goto(`${server.url}#/s/${id}`);
  const log = page.getByRole("log", { name: "Timeline" });
  await log.locator("[data-id]").first().waitFor();
  return log;
}

const says = (role, text) => ["MessagesAppended", { messages: [{ role, blocks: [{ text }] }], usage, notice: false }];
const result = (call_id, tool, over) => ["ToolResultRecorded", { call_id, tool, status: "ok", text: "", images: null, display: null, files: null, where, duration: 1e6, ...over }];
const bash = (over) => ({
  command: "x", description: "", exit_code: 0, signal: 0, timed_out: false, interrupted: false, out_of_memory: false, stdout: "", stderr: "",
  stdout_total: 0, stderr_total: 0, dropped: 0, background: null, kill: null, duration_ms: 1, ...over,
});

/** foreign lists what must not be in the page: elements of the output, links that run, raw control characters. */
const foreign = () =>
  page.evaluate(() => [
    ...[...document.querySelectorAll("body script, iframe, object, embed, [onerror], [onload], img[src=x]")].map((e) => e.outerHTML.slice(0, 80)),
    ...[...document.querySelectorAll("a[href]")].map((a) => a.getAttribute("href")).filter((h) => /^\s*(?:javascript|data|vbscript):/i.test(h)),
    ...(document.querySelector("[role=log]").innerText.match(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g) ?? []).map((c) => `U+${c.charCodeAt(0).toString(16)}`),
    // Where a terminal is not meant, as in a message, an escape is written as a character that is seen.
    ...(document.querySelector("[role=log]").innerText.match(/.{9}(?<!\u241b)(?:\[31m|\]8;;|\]0;t|\[2J)/g) ?? []),
  ]);

test("hostile output, names, errors and answers are text", { skip }, async () => {
  const log = await open("s1");
  server.change("s1", { title: EVIL, image: EVIL, detail: EVIL });
  server.tell("s1", ...result("e1", "Bash", { display: bash({ stdout: EVIL, stderr: EVIL, command: `echo '${HTML}'` }) }));
  server.tell("s1", ...result("e2", "Bash", { status: "error", text: EVIL }));
  server.tell("s1", ...result("e3", "Read", { text: `     1\t${HTML}\n     2\t\u202eevil`, display: { path: `/workspace/${HTML}`, start_line: 1, lines: 2, total_lines: 2, size: 9, media_type: "" } }));
  server.tell("s1", ...result("e4", "Edit", { display: { path: HTML, diff: `@@ -1 +1 @@\n-${HTML}a\n+${HTML}b\n`, added: 1, removed: 1, replaced: 1, in_place: false } }));
  server.tell("s1", ...result("e5", "Grep", { text: `${HTML}:1:${HTML}`, display: { pattern: HTML, path: HTML, mode: "content", rows: 1, total: 1, truncated: false, warnings: [HTML] } }));
  server.tell("s1", ...result("e6", HTML, { text: EVIL, images: [{ media_type: "image/svg+xml", data: btoa("<svg onload=alert(1)/>") }] }));
  server.tell("s1", "LLMRequestFinished", { model: HTML, usage, cost_usd: null, duration: 1, error: EVIL });
  server.tell("s1", "ToolCallApprovalRequested", { call_id: "e7", tool: "Bash", input: { command: `rm -rf \u202e/ ${HTML}` }, reason: EVIL });
  server.tell("s1", ...says("user", EVIL));
  server.tell("s1", ...says("assistant", `${HTML}\n\n[a](javascript:alert(1)) [b](JAVASCRIPT:alert(1)) [c](data:text/html,x) <a href="javascript:alert(1)">d</a> ![p](https://evil.example/p.png) [https://bank.example](https://evil.example/x)\n\n<svg/onload=alert(1)>\n\n\`\`\`<b>\n${HTML}\n\`\`\`\n\n| ${HTML} |\n|---|\n| \`${HTML}\` |`));
  server.live({ session_id: "s1", kind: "output", call_id: "live1", stream: "stdout", offset: 0, end: 10_000, data: EVIL });
  await log.getByText("[b](JAVASCRIPT:alert(1))").waitFor();
  await log.getByRole("link", { name: "https://bank.example" }).waitFor(); // what makes markup of an answer may come later
  await unfold();
  await log.getByText("gnp.exe").first().waitFor();
  assert.deepEqual(await foreign(), []);
  assert.deepEqual(dialogs, []);
  assert.deepEqual(faults, [], "nothing was loaded, refused or thrown");
  await until(async () => (await log.getByText("<img src=x onerror=alert(1)>").count()) >= 6, "the text is there as it is");
  assert.equal(await log.getByRole("link", { name: "https://bank.example" }).getAttribute("rel"), "noopener noreferrer");
  await log.getByText("(evil.example)", { exact: false }).first().waitFor();
  assert.equal(await log.locator("img").count(), 0);
});

test("an approval shows the whole command, and is answered by a key", { skip }, async () => {
  const log = await open("s2");
  const command = `${Array.from({ length: 60 }, (_, i) => `echo line ${i}`).join("\n")}\nrm -rf \u202e/etc`;
  server.tell("s2", "ToolCallApprovalRequested", { call_id: "k1", tool: "Bash", input: { command }, reason: "Bash runs a command" });
  await log.getByText("rm -rf ⟨U+202E⟩/etc").waitFor();
  await page.locator('[data-id="k1"] [data-head]').focus();
  await page.keyboard.press("d");
  await page.locator('[data-id="k1"]').getByLabel("Reason").fill("no");
  await page.keyboard.press("Escape");
  await page.locator('[data-id="k1"] [data-head]').focus();
  await page.keyboard.press("a");
  await log.locator('[data-id="k1"]').getByText("queued").waitFor();
  assert.deepEqual(server.posts, [{ path: "/api/v1/sessions/s2/approvals/k1", body: { allow: true, reason: "" } }]);
});

test("a denial tells its reason once, whatever was to be done", { skip }, async () => {
  await open("s1");
  for (const [tool, input] of [["Bash", { command: "rm -rf /" }], ["Write", { file_path: "/workspace/a", content: "x" }], ["Other", { a: 1 }]]) {
    const call_id = `denied-${tool}`;
    server.tell("s1", "ToolCallApprovalRequested", { call_id, tool, input, reason: `${tool} can change files.` });
    server.tell("s1", "ToolCallApprovalResolved", { call_id, allow: false, reason: "not on a Friday" });
    server.tell("s1", "ToolCallDenied", { call_id, reason: "not on a Friday" });
    server.tell("s1", ...result(call_id, tool, { status: "denied", text: "Denied: a person decided that this call is not made. Their reason: not on a Friday" }));
    const card = page.getByRole("article", { name: `${tool} call, denied` });
    if ((await card.getByRole("button").first().getAttribute("aria-expanded")) === "false") await card.getByRole("button").first().click();
    await card.getByText("Not run: not on a Friday").waitFor();
    assert.equal((await card.innerText()).split("not on a Friday").length - 1, 1, tool);
  }
});

test("a flood leaves the page small and quick", { skip }, async (t) => {
  const log = await open("s1");
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable");
  const heap = async () => {
    await cdp.send("HeapProfiler.collectGarbage");
    const { metrics } = await cdp.send("Performance.getMetrics");
    return metrics.find((m) => m.name === "JSHeapUsedSize").value / 1e6;
  };
  const before = await heap();
  const quiet = await clicks();
  let offset = 0;
  const out = (data) => {
    server.live({ session_id: "s1", kind: "output", call_id: "live1", stream: "stdout", offset, end: offset + data.length, data });
    offset += data.length;
  };
  // 40,000 coloured lines in about a second, and a click in the middle of them.
  const flood = (async () => {
    for (let i = 0; i < 400; i++) {
      out(Array.from({ length: 100 }, (_, k) => `\x1b[3${k % 8}mline ${i * 100 + k}\x1b[0m\n`).join(""));
      await new Promise((done) => setTimeout(done, 2));
    }
  })();
  const busy = await clicks();
  await flood;
  await log.getByText("line 39999").waitFor();
  await becomes(() => log.getByText(/above are not shown while it runs/).count(), 1, "what was cut is said to be");
  for (let i = 0; i < 10_000; i++) out(`\r\x1b[Kstep ${i}`);
  await log.getByText("step 9999").waitFor();
  await becomes(() => log.getByText("step 9998").count(), 0, "progress is its last state");
  out(`\n${"x".repeat(1_000_000)}end`);
  await log.getByText(/x{100}end/).waitFor();
  const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
  const grown = (await heap()) - before;
  t.diagnostic(`a click ${Math.round(busy)} ms, without the flood ${Math.round(quiet)} ms; ${nodes} nodes; heap +${grown.toFixed(1)} MB`);
  assert.ok(nodes <= 5_000, `${nodes} nodes`);
  assert.ok(grown <= 200, `heap +${grown} MB`);
  // A machine that is slow without the flood says nothing about the flood.
  assert.ok(busy <= Math.max(200, 4 * quiet), `a click took ${busy} ms, ${quiet} ms without the flood`);
});

test("a long log opens quickly, and its cards are reached by their links", { skip }, async (t) => {
  const events = [];
  for (let i = 0; events.length < 100_000; i++) {
    events.push(["ToolCallStarted", { call_id: `h${i}`, tool: i % 3 ? "Read" : "Bash", input: { command: `echo ${i}`, file_path: `/workspace/f${i}` }, actor: "agent", where }]);
    events.push(result(`h${i}`, i % 3 ? "Read" : "Bash", i % 3 ? { text: `     1\tline ${i}`, display: { path: `/workspace/f${i}`, start_line: 1, lines: 1, total_lines: 1, size: 9, media_type: "" } } : { display: bash({ command: `echo ${i}`, stdout: `out ${i}\n`, stdout_total: 9 }) }));
    events.push(["ToolCallFinished", { call_id: `h${i}` }]);
    events.push(says("assistant", `Step ${i} is *done*.`));
  }
  server.fill("s3", events);
  await page.goto(`${server.url}#token=${TOKEN}`);
  await page.getByRole("navigation", { name: "Sessions" }).getByText("Upgrade the linter").waitFor();
  const took = await page.evaluate(async () => {
    const begun = performance.now();
    location.hash = "#/s/s3";
    for (;;) {
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      const log = document.querySelector("[role=log]");
      if (log?.ariaBusy === "false" && log.querySelector('[data-id="h24999"]')) return performance.now() - begun;
    }
  });
  const log = page.getByRole("log", { name: "Timeline" });
  await log.getByText("Step 24999 is done.").waitFor();
  const nodes = await log.evaluate((e) => e.querySelectorAll("*").length);
  t.diagnostic(`100,000 events shown in ${Math.round(took)} ms; ${nodes} nodes`);
  assert.ok(nodes <= 3_000, `${nodes} nodes`);
  await until(() => log.evaluate((e) => e.scrollHeight - e.scrollTop - e.clientHeight < 48), "it follows the end");

  await log.press("Home");
  await log.getByText("Step 0 is done.").waitFor();
  await page.getByRole("button", { name: "Paused · Jump to latest" }).waitFor();
  server.tell("s3", ...says("assistant", "Something new."));
  await page.getByRole("button", { name: "Paused · 1 new · Jump to latest" }).click();
  await log.getByText("Something new.").waitFor();
});

test("a timeline is where it was left, after another session and after a reload", { skip }, async () => {
  server.fill("s5", Array.from({ length: 400 }, (_, i) => says(i % 2 ? "assistant" : "user", `line ${i}\n\nwith a second *part*`)));
  const log = await open("s5");
  const view = () =>
    log.evaluate((e) => {
      const top = e.getBoundingClientRect().top;
      const el = [...e.querySelectorAll("[data-id]")].find((i) => i.getBoundingClientRect().bottom > top);
      return { id: el?.dataset.id, offset: Math.round((el?.getBoundingClientRect().top ?? 0) - top) };
    });
  await log.getByText("line 399").waitFor();
  await log.hover();
  await page.mouse.wheel(0, -9_000);
  await page.getByRole("button", { name: /^Paused/ }).waitFor();
  const left = await settles(view, "the scrolling settles"); // then the place is kept
  /** returned waits until the place is the one that was left. */
  const returned = () =>
    until(async () => {
      const { id, offset } = await view();
      return id === left.id && Math.abs(offset - left.offset) <= 2;
    }, `it is at ${left.id} again`);
  await page.goto(`${server.url}#/s/s2`);
  await page.getByRole("button", { name: "Deny…" }).waitFor();
  await page.goto(`${server.url}#/s/s5`);
  await page.getByRole("button", { name: /^Paused/ }).waitFor();
  await returned();
  await page.reload();
  await page.getByRole("button", { name: /^Paused/ }).waitFor();
  await returned();
  await page.waitForTimeout(300);
  await returned(); // and stays there
});

test("a card is opened and closed by keys, and stays so", { skip }, async () => {
  const log = await open("s4");
  const read = log.locator("[data-id=s4c4] [data-head]");
  await read.focus();
  await page.keyboard.press("Enter");
  await log.getByText("func (l *lexer) next() token {").first().waitFor();
  await becomes(() => read.getAttribute("aria-expanded"), "true");
  await page.reload();
  await log.locator("[data-id=s4c4] [data-head][aria-expanded=true]").waitFor();
  await log.locator("[data-id=s4c4] [data-head]").press("Space");
  await log.locator("[data-id=s4c4] [data-head][aria-expanded=false]").waitFor();
});

test("the timeline has no fault that axe finds, in both themes", { skip }, async () => {
  for (const theme of ["light", "dark"]) {
    for (const id of ["s4", "s2", "s1"]) {
      const log = await open(id, theme);
      server.live({ session_id: "s1", kind: "output", call_id: "live1", stream: "stdout", offset: 0, end: 30, data: "\x1b[31mred\x1b[34m blue\x1b[0m\n" });
      await unfold();
      assert.deepEqual(await audit(page, `${id} ${theme}`, { within: "[role=log]", every: true }), []);
    }
  }
});
