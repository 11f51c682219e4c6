// The browser that the tests of the screen drive, and what axe finds in a page of it.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { chromium } from "playwright-core";

const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** The parts that have to be there: without one its tests fail, and are not skipped. */
export const required = (process.env.GLOVEBOX_TEST_REQUIRE ?? "").split(",");
export const isThere = existsSync(executablePath);

/** skip says why no test can run here, or false. */
export const skip = !isThere && !required.includes("chromium") ? `${executablePath} is not there` : false;

/** launch starts a browser that asks nobody anything. */
export const launch = (...more) =>
  chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", ...more],
  });

/** browse starts one browser for the tests of a file; what it returns gives that browser. */
export function browse(...more) {
  let browser;
  before(async () => {
    if (!skip) browser = await launch(...more);
  });
  after(async () => browser?.close());
  return () => browser;
}

/** What the browser itself says of a server that went away, and of a network that went or changed while containers come and go. */
const away = /WebSocket|ERR_(CONNECTION|SOCKET|NETWORK|INTERNET)_/;

/** note puts what goes wrong in a page, or in the pages of a context, among the faults; what allow matches may be said. */
export function note(shown, faults, allow = /^$/) {
  shown.on("console", (m) => m.type() === "error" && !away.test(m.text()) && !allow.test(m.text()) && faults.push(m.text()));
  shown.on("pageerror", (e) => faults.push(String(e))); // of a page
  shown.on("weberror", (e) => faults.push(String(e.error()))); // of a context
}

/** until waits for what cannot be seen on the screen, and returns it. */
export async function until(look, what, within = 30_000) {
  for (const end = Date.now() + within; ; ) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) assert.fail(`it never happened: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** becomes waits until what a look gives is as wanted, and says how it was at last if it never is. */
export async function becomes(look, want, what, within = 30_000) {
  let found;
  for (const end = Date.now() + within; !isDeepStrictEqual((found = await look()), want); ) {
    if (Date.now() > end) assert.deepEqual(found, want, what);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** settles waits until a look gives the same twice, longer apart than a frame or a scroll goes on, and returns it. */
export async function settles(look, what) {
  let last;
  await until(async () => {
    const before = last;
    await new Promise((resolve) => setTimeout(resolve, 500));
    last = await look();
    return isDeepStrictEqual(last, before);
  }, what);
  return last;
}

/** hasFocus reports whether an element has the keyboard. */
export const hasFocus = (locator) => locator.evaluate((e) => e === document.activeElement);

/**
 * quickly presses keys one after the other without a wait between, however busy the machine is: characters, or Escape.
 * What belongs to a sequence of the keymap is lost when the next key comes late.
 */
export async function quickly(page, ...keys) {
  const session = await page.context().newCDPSession(page);
  const parts = keys.flatMap((key) => {
    const what = key === "Escape" ? { key, code: key, windowsVirtualKeyCode: 27 } : { key, code: `Key${key.toUpperCase()}`, windowsVirtualKeyCode: key.toUpperCase().charCodeAt(0), text: key };
    return [{ type: what.text ? "keyDown" : "rawKeyDown", ...what }, { type: "keyUp", ...what, text: undefined }];
  });
  await Promise.all(parts.map((p) => session.send("Input.dispatchKeyEvent", p)));
  await session.detach();
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/**
 * audit returns what axe finds serious or critical in a page, or in a part of it; with every, whatever it finds.
 * Axe itself comes in by the debugger, where the page's policy has no say, but may add styles of its own.
 */
export async function audit(page, where, { within = "html", every = false } = {}) {
  await page.evaluate(async () => {
    // What still fades in has no colours that count; a spinner never ends.
    const moving = document.getAnimations().filter((a) => a.effect.getComputedTiming().endTime !== Infinity);
    await Promise.allSettled(moving.map((a) => a.finished));
  });
  await page.evaluate(`${axe};0`);
  const found = await page.evaluate(async (part) => {
    const { violations } = await window.axe.run(part, { resultTypes: ["violations"] });
    return violations.map((v) => ({ ...v, nodes: v.nodes.map((n) => `${n.target.join(" ")} ${n.failureSummary ?? ""}`) }));
  }, within);
  return found
    .filter((v) => every || ["serious", "critical"].includes(v.impact))
    .map((v) => `${where}: ${v.id} (${v.impact}): ${v.nodes.join("; ")}`);
}
