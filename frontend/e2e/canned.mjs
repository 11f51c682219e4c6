// The page that a test drives, over a canned server of its own.
import assert from "node:assert/strict";
import { afterEach, beforeEach } from "node:test";
import { browse, note, skip } from "./browser.mjs";
import { start, TOKEN } from "./mock.mjs";

const browser = browse();

/** The server that was started last, and the page that was made last. */
export let server;
export let page;

/** What the page complained of in this test; at its end there may be nothing. */
export let faults;
let context;

beforeEach(() => (faults = []));
afterEach(async () => {
  if (skip) return;
  const violations = await page.evaluate(() => window.violations);
  await context.close();
  await server.close();
  assert.deepEqual(violations, [], "the content security policy was not broken");
  assert.deepEqual(faults, []);
});

/** serve starts a server with options. */
export async function serve(options = {}) {
  server = await start(0, options);
}

/** view makes an empty page with settings of its own, in place of the one before; it may complain of what allow matches. */
export async function view(settings = {}, allow = /Failed to load resource/) {
  await context?.close();
  context = await browser().newContext({ viewport: { width: 1200, height: 900 }, reducedMotion: "reduce", permissions: ["clipboard-read", "clipboard-write"], ...settings });
  await context.addInitScript(() => {
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (e) => window.violations.push(`${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}`));
  });
  page = await context.newPage();
  page.setDefaultTimeout(30_000);
  note(page, faults, allow);
}

/** show shows the screen at hash. */
export async function show(hash) {
  await page.goto(`${server.url}#token=${TOKEN}`);
  await page.locator("nav").first().waitFor({ state: "attached" });
  if (hash) await page.goto(`${server.url}${hash}`);
}

/** open starts a server with options and shows its screen at hash. */
export async function open(hash, options = {}, settings = {}) {
  await serve(options);
  await view(settings);
  await show(hash);
}
