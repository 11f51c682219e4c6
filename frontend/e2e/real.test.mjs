// The screen over the real program, with real sandboxes behind it:
//   make build && npm run e2e
import assert from "node:assert/strict";
import { spawn, execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, chmodSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, afterEach, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const program = join(dirname(fileURLToPath(import.meta.url)), "../../build/bin/glovebox");
const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
const require = (process.env.GLOVEBOX_TEST_REQUIRE ?? "").split(",");

function works(command, ...args) {
  try {
    execFileSync(command, args, { stdio: "ignore", timeout: 10_000 });
    return true;
  } catch {
    return false;
  }
}
const has = {
  chromium: existsSync(executablePath),
  docker: works("docker", "version", "--format", "{{.Server.Version}}"),
  bwrap: works("bwrap", "--version"),
};
/** Why a test cannot run here, or false. What is required has to be there. */
function skip(...parts) {
  const missing = parts.find((p) => !has[p] && !require.includes(p));
  return missing ? `no ${missing} on this machine` : false;
}

let browser;
before(async () => {
  if (skip("chromium")) return;
  browser = await chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
});
after(async () => browser?.close());

const closing = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** A data directory that is emptied of sandboxes and removed at the end. */
function dataDir() {
  const dir = mkdtempSync(join(tmpdir(), "glovebox-e2e-"));
  chmodSync(dir, 0o755);
  closing.push(() => {
    const data = join(dir, "data");
    for (const line of execFileSync(program, ["ls", "--json", "--data", data], { encoding: "utf8" }).split("\n")) {
      if (line) execFileSync(program, ["close", JSON.parse(line).session_id, "--data", data]);
    }
    rmSync(dir, { recursive: true });
  });
  return join(dir, "data");
}

/** Starts a server and returns its address, token and process. */
async function serve(data, addr = "127.0.0.1:0") {
  const child = spawn(program, ["serve", "--json", "--no-open", "--addr", addr, "--data", data], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, XDG_CONFIG_HOME: "/proc/none" },
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  closing.push(async () => {
    child.kill("SIGTERM");
    await ended;
  });
  const line = await new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (d) => {
      text += d;
      if (text.includes("\n")) resolve(text);
    });
    ended.then(() => reject(new Error("the server ended before it was ready")));
  });
  const ready = JSON.parse(line);
  return { url: ready.url, token: readFileSync(ready.token_file, "utf8").trim(), child, ended };
}

async function open(server, faults) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  closing.push(() => context.close());
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  page.on("pageerror", (e) => faults.push(String(e)));
  page.on("console", (m) => m.type() === "error" && !m.text().includes("WebSocket") && !m.text().includes("ERR_CONNECTION") && faults.push(m.text()));
  await page.goto(`${server.url}/#token=${server.token}`);
  return page;
}

for (const wall of ["docker", "namespace"]) {
  const part = wall === "docker" ? "docker" : "bwrap";
  test(`the demo behind the ${wall} wall: live, stopped, the server killed and back`, { skip: skip("chromium", part), timeout: 120_000 }, async () => {
    const faults = [];
    const data = dataDir();
    let server = await serve(data);
    const page = await open(server, faults);
    const workspace = mkdtempSync(join(tmpdir(), "glovebox-ws-"));
    chmodSync(workspace, 0o755);
    closing.push(() => rmSync(workspace, { recursive: true }));
    const script = join(workspace, "story.json");
    const slow = "echo x >> log; i=0; while [ $i -lt 100 ]; do echo tick $i; i=$((i+1)); sleep 0.2; done";
    writeFileSync(script, JSON.stringify([
      { text: "I look around.", calls: [{ tool: "Bash", input: { command: "hostname" } }] },
      { text: "Now something slow.", calls: [{ tool: "Bash", input: { command: slow } }] },
      { text: "All done." },
    ]));
    const opened = await fetch(`${server.url}/api/v1/sessions`, {
      method: "POST",
      headers: { Authorization: `Bearer ${server.token}`, "Content-Type": "application/json" },
      body: JSON.stringify({ title: "A real story", goal: "go", model: `script:${script}`, workspace, spec: { wall, network: {} } }),
    });
    assert.equal(opened.status, 202, await opened.clone().text());

    await page.getByRole("link", { name: "A real story" }).click();
    const log = page.getByRole("log", { name: "Timeline" });
    await log.getByText("I look around.").waitFor();
    await log.getByText(/tick 3/).waitFor(); // live, while it runs

    // The server dies; the screen says so, comes back, and the command went on.
    server.child.kill("SIGKILL");
    await server.ended;
    await page.getByText("The server does not answer.").waitFor();
    server = await serve(data, new URL(server.url).host);
    await log.getByText(/tick 30/).waitFor();
    assert.equal(readFileSync(join(workspace, "log"), "utf8"), "x\n");

    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await page.getByText(/0 processes left, \d+ ms/).first().waitFor();

    // Opened again, it is all still there.
    await page.reload();
    await page.getByRole("log", { name: "Timeline" }).getByText("Now something slow.").waitFor();
    await page.locator("main header").getByRole("button", { name: "Release", exact: true }).click();
    await page.getByText("released").first().waitFor();
    assert.deepEqual(faults, []);
  });
}

test("a container removed behind its back is shown as lost, and can be replaced", { skip: skip("chromium", "docker"), timeout: 120_000 }, async () => {
  const faults = [];
  const server = await serve(dataDir());
  const page = await open(server, faults);
  await page.getByRole("button", { name: "Try the demo" }).first().click();
  const log = page.getByRole("log", { name: "Timeline" });
  await log.getByText("working: step 2 of 8").waitFor();
  const sessions = await (await fetch(`${server.url}/api/v1/sessions`, { headers: { Authorization: `Bearer ${server.token}` } })).json();
  execFileSync("docker", ["rm", "-f", sessions[0].short_id]);
  await page.getByText(/lost/).first().waitFor({ timeout: 5_000 });
  await page.getByRole("button", { name: /Re-?provision/ }).first().click();
  await page.getByText(/ready/).first().waitFor();
  assert.deepEqual(faults, []);
});
