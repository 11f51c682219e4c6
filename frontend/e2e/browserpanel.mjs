// The browser panel as its tests drive it, over canned browsers, which remember all that they are told.
import { beforeEach } from "node:test";
import { skip, until } from "./browser.mjs";
import { page, serve, server, show, view } from "./canned.mjs";
import { PAGE } from "./mockbrowser.mjs";

/** fresh makes the page with settings of its own. It may complain of nothing: what is refused comes over the socket. */
export const fresh = (settings = {}) => view({ viewport: { width: 1280, height: 800 }, ...settings }, /^$/);

beforeEach(async () => {
  if (skip) return;
  await serve();
  await fresh();
});

export const panel = () => page.locator("#panel-browser");
export const place = () => panel().locator(".place");
/** agents is what says that the agent has the browser. */
export const agents = () => panel().locator(".who").getByText(/^The agent has the browser/);
export const button = (name) => panel().getByRole("button", { name, exact: true });
export const canned = (id = "s1") => server.browser(id);

/** drawn waits until a picture was drawn: what is in the middle of the canvas is not black. */
export const drawn = () =>
  until(
    () =>
      panel()
        .locator("canvas")
        .evaluate((c) => c.width > 100 && c.getContext("2d").getImageData(c.width / 2, c.height / 2, 1, 1).data[0] > 0),
    "a picture",
  );

/** look shows the panel with its picture. */
export async function look() {
  await show("#/s/s1/browser");
  await drawn();
}

/** take looks, and takes control. */
export async function take() {
  await look();
  await page.keyboard.press("t");
  await panel().getByText("You have control", { exact: true }).waitFor();
  await until(() => page.evaluate(() => document.activeElement?.getAttribute("aria-label") === "Keyboard of the page"), "the picture has the keyboard");
}

/** on is the point of the window where a point of the page is shown. */
export async function on(x, y) {
  const box = await place().boundingBox();
  const scale = Math.min(box.width / PAGE.width, box.height / PAGE.height);
  return [box.x + (box.width - PAGE.width * scale) / 2 + x * scale, box.y + (box.height - PAGE.height * scale) / 2 + y * scale];
}

/** mapped is the point of the page that an input means, as the relay works it out. */
export function mapped({ x, y, width, height }) {
  const scale = Math.min(width / PAGE.width, height / PAGE.height);
  return [(x - (width - PAGE.width * scale) / 2) / scale, (y - (height - PAGE.height * scale) / 2) / scale];
}
