// Takes pictures of the UI at several sizes in both themes:
//   npm run build && node e2e/shots.mjs [DIR]
import { mkdir } from "node:fs/promises";
import { chromium } from "playwright-core";
import { start, TOKEN } from "./mock.mjs";

const dir = process.argv[2] ?? "shots";
await mkdir(dir, { recursive: true });

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const sizes = { 360: 740, 1024: 720, 1920: 1080 };
const faults = [];

async function open(server, width, theme, hash) {
  const context = await browser.newContext({ viewport: { width, height: sizes[width] }, colorScheme: theme, reducedMotion: "reduce" });
  const page = await context.newPage();
  page.on("console", (m) => m.type() === "error" && faults.push(m.text()));
  page.on("pageerror", (e) => faults.push(String(e)));
  await page.goto(`${server.url}#token=${TOKEN}`);
  await page.locator("nav").waitFor({ state: "attached" });
  if (page.url().includes(TOKEN)) faults.push("the token stays in the address");
  if (hash) await page.goto(`${server.url}${hash}`);
  await page.waitForTimeout(700);
  return page;
}

function play(server) {
  const lines = ["=== RUN   TestLexer_tabs", "--- PASS: TestLexer_tabs (0.00s)", "=== RUN   TestLexer_eof", "--- PASS: TestLexer_eof (0.00s)", "=== RUN   TestParser"];
  let offset = 0;
  for (const l of lines) {
    server.live({ session_id: "s1", kind: "output", call_id: "live1", stream: "stdout", offset, end: offset + l.length + 1, data: `${l}\n` });
    offset += l.length + 1;
  }
  server.live({ session_id: "s1", kind: "output", call_id: "live1", stream: "stderr", offset: 0, end: 27, data: "warning: race detector is on\n" });
}

for (const theme of ["light", "dark"]) {
  const server = await start();
  const empty = await start(0, { empty: true, broken: true });
  for (const width of [360, 1024, 1920]) {
    const shot = (page, name) => page.screenshot({ path: `${dir}/${name}-${width}-${theme}.png` });
    let page = await open(server, width, theme, "#/s/s1");
    play(server);
    await page.waitForTimeout(400);
    await page.waitForTimeout(200);
    await shot(page, "running");
    if (width === 360) {
      await page.getByRole("button", { name: "Sessions" }).click();
      await page.waitForTimeout(300);
      await shot(page, "drawer");
      await page.keyboard.press("Escape");
    }
    if (width === 360) {
      await page.getByRole("button", { name: "Show the container" }).click();
      await page.waitForTimeout(300);
      await shot(page, "panel");
      await page.keyboard.press("Escape");
    }
    await page.getByRole("log").evaluate((e) => (e.scrollTop = 0));
    await page.waitForTimeout(200);
    await shot(page, "top");
    await page.context().close();

    page = await open(server, width, theme, "#/s/s2");
    await page.waitForTimeout(2300);
    await shot(page, "waiting");
    await page.context().close();

    page = await open(server, width, theme, "#/s/s3");
    await shot(page, "stopped");
    await page.context().close();

    page = await open(empty, width, theme, "");
    await shot(page, "empty");
    if (width === 360) await page.getByRole("main").getByRole("button", { name: "New session" }).click();
    else await page.getByRole("navigation").getByRole("button", { name: "New session" }).click();
    await page.getByRole("textbox", { name: "Goal" }).fill("Make the tests pass");
    await page.getByRole("textbox", { name: "Workspace" }).fill("src/x");
    if (width === 1024) await page.getByRole("dialog").getByText("No wall", { exact: true }).click();
    else await page.getByRole("button", { name: "Open session" }).click();
    await page.waitForTimeout(300);
    await shot(page, "new");
    await page.context().close();
  }
  await server.close();
  await empty.close();
}
await browser.close();
for (const f of new Set(faults)) console.log("fault:", f);
