// What a person does with sandboxes over the real program, and what the screen says of what is done to them by hand.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { until } from "./browser.mjs";
import { atEnd, bash, current, dataDir, docker, folder, header, look, pause, script, serve, setUp, shows, skip, timeline, walls } from "./program.mjs";

setUp();

const panel = (page) => page.locator("#panel-container");
const act = (page, name) => panel(page).getByRole("button", { name, exact: true }).click();

/** fill writes a new session into its form; the form is open after it. */
async function fill(page, { title, model, workspace, wall }) {
  await page.getByRole("button", { name: "New session" }).first().click();
  const dialog = page.getByRole("dialog", { name: "New session" });
  await dialog.getByLabel("Goal").fill("Do what the script says");
  await dialog.getByLabel("Title").fill(title);
  await dialog.getByRole("textbox", { name: "Workspace" }).fill(workspace);
  await dialog.getByText(wall, { exact: true }).click();
  assert.ok(await dialog.getByRole("radio", { name: wall }).isChecked());
  await dialog.getByRole("radio", { name: "Another one, by its name" }).check();
  await dialog.getByLabel("Name of the model").fill(model);
  return dialog;
}

for (const { wall, part, name } of walls) {
  test(`a session behind the ${wall} wall through the form, with a mount and limits`, { skip: skip(part), timeout: 90_000 }, async () => {
    const server = await serve(dataDir());
    const page = await look(server);
    const workspace = folder("ws");
    const extra = folder("extra");
    writeFileSync(join(extra, "notes.txt"), "from the host\n");
    const model = script([
      bash("hostname; cat /mnt/extra/notes.txt; touch /mnt/extra/no 2>/dev/null || echo read only it is", "I look around."),
      { text: "A file.", calls: [{ tool: "Write", input: { file_path: "made.txt", content: "one\ntwo\n" } }] },
      { text: "A change.", calls: [{ tool: "Edit", input: { file_path: "made.txt", old_string: "two", new_string: "three" } }] },
      { text: "All done." },
    ]);
    const dialog = await fill(page, { title: `Behind ${wall}`, model, workspace, wall: name });
    await dialog.getByRole("button", { name: /mounts and limits/ }).click();
    await dialog.getByLabel("Memory").fill("256m");
    await dialog.getByLabel("Processes").fill("77");
    await dialog.getByRole("button", { name: "Add a mount" }).click();
    await dialog.getByLabel("Folder of this machine").fill(extra);
    await dialog.getByLabel("Path in the sandbox").fill("/mnt/extra");
    await dialog.getByRole("button", { name: "Open session" }).click();

    const log = timeline(page);
    await log.getByText("All done.").waitFor();
    const id = await current(page);
    const { short_id } = await server.show(id);
    await log.getByText(new RegExp(`${short_id}\\s+from the host\\s+read only it is`)).first().waitFor(); // its host name is its id
    await log.getByRole("article", { name: "Edit call, ok" }).getByText("three").waitFor();
    await shows(page, "ready");
    assert.equal(readFileSync(join(workspace, "made.txt"), "utf8"), "one\nthree\n");
    assert.ok(!existsSync(join(extra, "no")));

    await page.getByRole("tab", { name: "Container" }).click();
    await panel(page).getByText("/mnt/extra", { exact: true }).waitFor();
    await panel(page).getByText("← " + extra).waitFor();
    if (wall === "docker") {
      await panel(page).getByText("256m", { exact: true }).waitFor();
      const [host] = JSON.parse(await docker("inspect", short_id));
      assert.equal(host.HostConfig.Memory, 256 << 20);
      assert.equal(host.HostConfig.PidsLimit, 77);
      assert.ok(host.Mounts.some((m) => m.Source === extra && m.Destination === "/mnt/extra" && !m.RW));
    }

    // The same question on both sides of the wall.
    await header(page).getByRole("button", { name: /^isolated/ }).click();
    const probe = page.getByRole("dialog");
    await probe.getByText(/\d of 7 differ/).waitFor();
    await probe.getByRole("row", { name: `Host name ${hostname()} ${short_id} its own names` }).waitFor();
    await probe.getByRole("row", { name: /^Interfaces .*its own network/ }).waitFor();
    await page.keyboard.press("Escape");
  });
}

test("a call on the local wall waits for a word, and nothing is kept apart", { skip: skip(), timeout: 60_000 }, async () => {
  const server = await serve(dataDir());
  const page = await look(server);
  const workspace = folder("ws");
  const model = script([bash("touch allowed"), bash("touch refused"), { text: "That is how it is." }]);
  const dialog = await fill(page, { title: "On this machine", model, workspace, wall: "No wall" });
  await dialog.getByLabel(/I understand/).check();
  await dialog.getByRole("button", { name: "Open session" }).click();
  const log = timeline(page);
  const waiting = log.getByRole("article", { name: "Bash call, waiting for you" });
  await waiting.getByText("touch allowed").first().waitFor();
  await page.waitForFunction(() => document.title.startsWith("(1)"));
  assert.ok(!existsSync(join(workspace, "allowed")));
  await waiting.getByRole("button", { name: "Allow once" }).click();
  await waiting.getByText("touch refused").first().waitFor();
  assert.ok(existsSync(join(workspace, "allowed")));
  await waiting.getByRole("button", { name: "Deny…" }).click();
  await waiting.getByLabel("Reason").fill("not that");
  await waiting.getByRole("button", { name: "Deny", exact: true }).click();
  await log.getByText("That is how it is.").waitFor();
  await log.getByRole("article", { name: "Bash call, denied" }).waitFor();
  assert.ok(!existsSync(join(workspace, "refused")));
  await header(page).getByRole("button", { name: "no wall" }).click();
  await page.getByRole("dialog").getByText("Nothing is kept apart.").waitFor();
  await page.getByRole("dialog").getByRole("row", { name: `Host name ${hostname()} ${hostname()} the same` }).waitFor();
});

for (const { wall, part } of walls) {
  test(`every button of the container's card behind the ${wall} wall does what it says`, { skip: skip(part), timeout: 120_000 }, async () => {
    const server = await serve(dataDir());
    const { id, short_id, ref } = await server.opened({ title: "Verbs", workspace: folder("ws"), spec: { wall } });
    const page = await look(server, { at: `#/s/${id}/container` });
    await shows(page, "ready");
    await server.bash(id, "echo kept > $HOME/mark");
    const runs = async (is) => wall !== "docker" || (await docker("inspect", "-f", "{{.State.Running}}", short_id)) === String(is);
    const mark = async () => (await server.bash(id, "cat $HOME/mark")).text;

    await act(page, "Stop container");
    await shows(page, "stopped");
    assert.ok(await runs(false));
    await act(page, "Start");
    await shows(page, "ready");
    assert.ok(await runs(true));
    assert.match(await mark(), /kept/);

    const started = async () => (wall === "docker" ? docker("inspect", "-f", "{{.State.StartedAt}}", short_id) : (await server.call("GET", `/sessions/${id}/container`)).hello?.boot_id);
    const first = await started();
    await act(page, "Restart");
    await until(async () => runs(true).then(async (up) => up && (await started().catch(() => first)) !== first), "started anew", 20_000);
    await shows(page, "ready");
    assert.match(await mark(), /kept/);
    assert.equal((await server.show(id)).ref, ref);

    await act(page, "Release");
    await shows(page, "released");
    if (wall === "docker") assert.equal(await docker("ps", "-aq", "--filter", `id=${short_id}`), "");
    await act(page, "Re-provision");
    await shows(page, "ready");
    const anew = await server.show(id);
    assert.notEqual(anew.ref, ref);

    if (wall === "namespace") return;
    atEnd(() => docker("rm", "-f", anew.short_id));
    await panel(page).getByRole("button", { name: "Ways to release" }).click();
    await page.getByRole("menuitem", { name: /Release and keep/ }).click();
    await shows(page, "kept, let go");
    assert.equal(await docker("inspect", "-f", "{{.State.Running}}", anew.short_id), "true");
  });
}

/** SOON is how long what happens outside may take to show: a promise, and not only a wait. */
const SOON = 5_000;

test("what is done to a container by hand is on the screen within 5 s, with its cause", { skip: skip("docker"), timeout: 90_000 }, async () => {
  const server = await serve(dataDir());
  const { id, short_id } = await server.opened({ title: "By hand", workspace: folder("ws"), spec: { wall: "docker" } });
  const page = await look(server, { at: `#/s/${id}/container` });
  await shows(page, "ready");

  await pause(short_id);
  await shows(page, "paused", SOON);
  await panel(page).getByText("frozen by someone else").waitFor();
  await docker("unpause", short_id);
  await shows(page, "ready", SOON);

  await docker("stop", "-t", "1", short_id);
  await shows(page, /stopped: \w+/, SOON);
  await docker("start", short_id);
  await shows(page, "ready", SOON);

  await docker("kill", short_id);
  await shows(page, /stopped.*killed/, SOON);
  await header(page).getByRole("button", { name: "Start" }).click();
  await shows(page, "ready");
  assert.match((await server.bash(id, "echo up again")).text, /up again/);

  await docker("rm", "-f", short_id);
  await shows(page, "lost: removed", SOON);
  await panel(page).getByText("It is gone. The workspace is not").waitFor();
});

test("an engine that stops is told from a container that is gone", { skip: skip("docker") || (process.getuid() !== 0 && "an engine of its own needs root"), timeout: 120_000 }, async () => {
  const dir = folder("engine");
  const host = `unix://${join(dir, "d.sock")}`;
  mkdirSync(join(dir, "data"));
  const args = ["-m", "-n", "--propagation", "private", "dockerd", "--data-root", join(dir, "data"), "--exec-root", join(dir, "exec")];
  args.push("-p", join(dir, "pid"), "-H", host, "--iptables=false", "--live-restore");
  let engine;
  const startEngine = async () => {
    const child = spawn("unshare", args, { stdio: "ignore" });
    engine = { child, ended: new Promise((resolve) => child.once("close", resolve)) };
    await until(() => docker("-H", host, "version").catch(() => ""), "the engine answers", 30_000);
  };
  const stopEngine = async () => {
    engine.child.kill("SIGTERM");
    await engine.ended;
  };
  atEnd(() => stopEngine());
  await startEngine();

  const env = { DOCKER_HOST: host };
  const server = await serve(dataDir(env), { env });
  const { id, ref } = await server.opened({ title: "On its own engine", workspace: folder("ws"), spec: { wall: "docker" } });
  const page = await look(server, { at: `#/s/${id}/container` });
  await shows(page, "ready");
  await stopEngine();
  await shows(page, "unreachable");
  await panel(page).getByText("It may still run; nothing is started twice meanwhile, and it is tried again by itself.").waitFor();
  await startEngine();
  await shows(page, "ready", 20_000);
  assert.equal((await server.show(id)).ref, ref);
  rmSync(join(dir, "pid"), { force: true });
});
