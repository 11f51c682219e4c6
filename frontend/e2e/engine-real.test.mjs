// Containers that were there before, and what a sandbox asks of the network, over the real program and engine:
//   make build && npm run e2e
import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "./browser.mjs";
import { atEnd, current, dataDir, docker, folder, header, look, pause, serve, setUp, shows, skip } from "./program.mjs";

setUp();

const main = (page) => page.getByRole("main");
const row = (page, name) => main(page).getByRole("listitem").filter({ has: page.getByRole("link", { name, exact: true }) });

/** stranger starts a container that no Glovebox made, of the image that sessions use, and returns its name. */
async function stranger(server) {
  const { default_image } = await server.call("GET", "/about");
  const name = `stranger-${process.pid}-${Date.now()}`;
  // Its first process is the image's own shell: it holds nothing of ours.
  await docker("run", "-d", "--name", name, "--entrypoint", "/bin/sh", default_image, "-c", "while :; do sleep 1; done");
  atEnd(() => docker("rm", "-f", name));
  return name;
}

test("a stranger's container is listed, attached to, used by hand, and left as it was found", { skip: skip("docker"), timeout: 180_000 }, async () => {
  const server = await serve(dataDir());
  // The image that sessions use is there once one was opened.
  await server.opened({ title: "First", workspace: folder("ws"), spec: { wall: "docker" } });
  const page = await look(server, { at: "#/containers" });
  await main(page).getByText(/^Engine at/).waitFor();

  const name = await stranger(server); // live: the list is told of it
  await row(page, name).getByText("running", { exact: true }).waitFor();
  await main(page).getByRole("region", { name: "Not ours" }).getByRole("link", { name, exact: true }).waitFor();
  await main(page).getByRole("region", { name: "In your sessions" }).getByRole("link", { name: "First" }).waitFor();

  await row(page, name).getByRole("button", { name: `Attach: ${name}` }).click();
  const id = await current(page);
  await shows(page, "ready", 30_000);
  await header(page).getByText("found", { exact: true }).waitFor();
  const session = await server.show(id);
  assert.ok(session.adopted);

  // A shell in it, and what it writes is in the container.
  await page.getByRole("tab", { name: "Container" }).click();
  await page.locator("#panel-container").getByRole("button", { name: "Open shell" }).click();
  const screen = page.locator(".xterm-rows").last();
  await screen.getByText(/[#$]/).first().waitFor();
  await page.locator(".xterm-helper-textarea").last().focus();
  await page.keyboard.type("echo by hand > /tmp/made; hostname; echo it is done\n");
  await screen.getByText("it is done", { exact: true }).waitFor();
  assert.equal(await docker("exec", name, "cat", "/tmp/made"), "by hand");
  const host = await docker("inspect", "-f", "{{.Config.Hostname}}", name);
  await screen.getByText(host, { exact: true }).waitFor();

  // It goes as it came: the container runs on, and nothing of ours is in it.
  await page.keyboard.press("Control+Shift+E");
  await page.goto(`${server.url}/#/containers`);
  await main(page).getByRole("region", { name: "In your sessions" }).getByRole("link", { name, exact: true }).first().waitFor();
  await row(page, name).getByRole("button", { name: `Release: ${name}` }).click();
  await main(page).getByRole("region", { name: "Not ours" }).getByRole("link", { name, exact: true }).waitFor();
  assert.equal(await docker("inspect", "-f", "{{.State.Running}}", name), "true");
  assert.doesNotMatch(await docker("diff", name), /glovebox/);
  assert.doesNotMatch(await docker("top", name), /guest/);

  // Stopped and started by the row; what is done by hand shows too.
  await row(page, name).getByRole("button", { name: /^More/ }).click();
  await page.getByRole("menuitem", { name: "Stop", exact: true }).click();
  await row(page, name).getByRole("button", { name: `Start: ${name}` }).click();
  await row(page, name).getByText("running", { exact: true }).waitFor();
  await pause(name);
  await row(page, name).getByRole("button", { name: `Unpause: ${name}` }).click();
  await until(async () => (await docker("inspect", "-f", "{{.State.Paused}}", name)) === "false", "it goes on");
  await docker("rm", "-f", name);
  await row(page, name).waitFor({ state: "detached" });
});

test("a connection that was refused is a row of the Network panel, with the flag that would allow it", { skip: skip("bwrap"), timeout: 120_000 }, async () => {
  const server = await serve(dataDir());
  const { id } = await server.opened({ title: "Looks around", workspace: folder("ws"), spec: { wall: "namespace", network: { mode: "proxy" } } });
  const page = await look(server, { at: `#/s/${id}/network` });
  const panel = page.getByRole("tabpanel", { name: "Network" });
  await panel.getByText("Nothing has asked for the network").waitFor();
  const { text } = await server.bash(id, "curl -sS --max-time 10 http://10.254.254.254:8081/");
  assert.match(text, /private address/);
  const refused = panel.getByRole("listitem").filter({ hasText: "10.254.254.254:8081" });
  await refused.getByText("Refused").waitFor();
  await refused.getByText("a private address").waitFor();
  await refused.getByText("--allow 10.254.254.254:8081").waitFor();
  await page.getByRole("tab", { name: /Network 1 refused/ }).waitFor();
});
