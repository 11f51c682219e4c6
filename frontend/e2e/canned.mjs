// The page that a test drives, over a canned server of its own.
import assert from "node:assert/strict";
import { afterEach, beforeEach } from "node:test";
import { browse, note, skip } from "./browser.mjs";
import { start, TOKEN } from "./mock.mjs";

const browser = browse();

/** What open has opened last: the server, and the page that it serves. */
export let server;
export let page;

/** What the page complained of in this test; at its end there may be nothing. */
export let faults;
let context;

beforeEach(() => (faults = []));
afterEach(async () => {
  if (skip) return;
  await context.close();
  await server.close();
  assert.deepEqual(faults, []);
});

/** open starts a server with options and shows its screen at hash. */
export async function open(hash, options = {}, view = {}) {
  server = await start(0, options);
  context = await browser().newContext({ viewport: { width: 1200, height: 900 }, reducedMotion: "reduce", permissions: ["clipboard-read", "clipboard-write"], ...view });
  page = await context.newPage();
  page.setDefaultTimeout(30_000);
  note(page, faults, /Failed to load resource/);
  await page.goto(`${server.url}#token=${TOKEN}`);
  await page.locator("nav").first().waitFor({ state: "attached" });
  if (hash) await page.goto(`${server.url}${hash}`);
}
