// The real program for the tests of the screen: servers that are started and killed, browsers that look at
// them, and what both leave behind. Everything that is made here is gone at the end of its test, passed or not.
import assert from "node:assert/strict";
import { execFile, execFileSync, spawn } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { browse, isThere, note, required, until } from "./browser.mjs";

const here = dirname(fileURLToPath(import.meta.url));
/** The program under test; GLOVEBOX names another one than was built here. */
export const program = process.env.GLOVEBOX ?? join(here, "../../build/bin/glovebox");

function works(command, ...args) {
  try {
    execFileSync(command, args, { stdio: "ignore", timeout: 10_000 });
    return true;
  } catch {
    return false;
  }
}
const has = {
  chromium: isThere,
  docker: works("docker", "version", "--format", "{{.Server.Version}}"),
  bwrap: works("bwrap", "--version"),
};

/** skip says why a test cannot run here, or false. What is required has to be there. */
export function skip(...parts) {
  const missing = ["chromium", ...parts].find((p) => !has[p] && !required.includes(p));
  return missing ? `no ${missing} on this machine` : false;
}

/** The walls, each with what it needs. */
export const walls = [
  { wall: "docker", part: "docker", name: "Docker container" },
  { wall: "namespace", part: "bwrap", name: "Linux namespaces" },
];

const closing = [];
/** atEnd runs after the test, the last one first, also when an earlier one fails. */
export const atEnd = (close) => void closing.push(close);

async function closeAll() {
  const failed = [];
  for (const close of closing.splice(0).reverse()) await Promise.resolve().then(close).catch((err) => failed.push(err));
  if (failed.length > 0) throw failed[0];
}

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => void closeAll().catch(console.error).finally(() => process.exit(1)));

let browser;

/** setUp starts one browser for the file's tests, and clears up after each of them. */
export function setUp() {
  browser = browse();
  afterEach(closeAll);
}

const run = promisify(execFile);

/** docker runs the docker command and returns what it printed. */
export const docker = async (...args) => (await run("docker", args)).stdout.trim();

/** pause freezes a container; on a busy machine the kernel may need to be asked again. */
export const pause = (name) => until(() => docker("pause", name).catch(() => ""), `${name} is paused`);

/** folder makes a directory that everyone can enter. */
export function folder(name) {
  const dir = mkdtempSync(join(tmpdir(), `glovebox-${name}-`));
  chmodSync(dir, 0o755);
  atEnd(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** dataDir makes a data directory. At the end its sandboxes are removed with it, by the engine that more names. */
export function dataDir(more = {}) {
  const data = join(folder("e2e"), "data");
  const env = { ...process.env, ...more };
  atEnd(() => {
    if (!existsSync(data)) return;
    for (const line of execFileSync(program, ["ls", "--all", "--json", "--data", data], { encoding: "utf8", env }).split("\n")) {
      if (line) execFileSync(program, ["close", JSON.parse(line).session_id, "--data", data], { stdio: "ignore", env });
    }
  });
  return data;
}

const children = new Set();
process.on("exit", () => children.forEach((c) => c.kill("SIGKILL"))); // when nothing else could be done

/** start starts a process that prints a line of JSON once it is ready, and ends it after the test. */
export async function start(command, args, options = {}) {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
  children.add(child);
  let log = "";
  child.stderr.on("data", (d) => (log = (log + d).slice(-20_000)));
  const ended = new Promise((resolve) => child.once("close", resolve)).finally(() => children.delete(child));
  const stop = async () => {
    child.kill("SIGTERM");
    const late = setTimeout(() => child.kill("SIGKILL"), 20_000);
    await ended;
    clearTimeout(late);
  };
  atEnd(stop);
  const ready = await new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (d) => {
      text += d;
      if (text.includes("\n")) resolve(JSON.parse(text.split("\n")[0]));
    });
    child.once("error", reject);
    void ended.then(() => reject(new Error(`${command} ended before it was ready:\n${log}`)));
  });
  return { ready, child, ended, stop, log: () => log };
}

/** Server is a program that serves a data directory. */
class Server {
  constructor(process) {
    Object.assign(this, process);
    this.url = this.ready.url;
    this.token = readFileSync(this.ready.token_file, "utf8").trim();
  }

  /** kill ends it as a crash does. */
  async kill() {
    this.child.kill("SIGKILL");
    await this.ended;
  }

  /** call asks the API. */
  async call(method, path, body) {
    const answer = await fetch(`${this.url}/api/v1${path}`, {
      method,
      headers: { Authorization: `Bearer ${this.token}`, ...(body && { "Content-Type": "application/json" }) },
      body: body && JSON.stringify(body),
    });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
  }

  sessions = () => this.call("GET", "/sessions");
  show = (id) => this.call("GET", `/sessions/${id}`);
  /** open opens a session and returns its id. */
  open = async (request) => (await this.call("POST", "/sessions", request)).session_id;
  /** opened is open that waits until its sandbox is ready. */
  opened = async (request) => {
    const id = await this.open(request);
    await this.call("POST", `/sessions/${id}/tools`, { tool: "Bash", input: { command: "true" } });
    return this.show(id);
  };
  bash = (id, command) => this.call("POST", `/sessions/${id}/tools`, { tool: "Bash", input: { command } });
}

/** serve starts the program, in a directory where one is named. A configuration is text, or nobody's. */
export async function serve(data, { addr = "127.0.0.1:0", config = "", cwd, env = {} } = {}) {
  const args = ["serve", "--json", "--no-open", "--addr", addr, "--data", data];
  if (config) {
    const file = join(folder("config"), "config.toml");
    writeFileSync(file, config);
    args.push("--config", file);
  }
  const clean = { ...process.env };
  for (const name of ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"]) delete clean[name];
  return new Server(await start(program, args, { cwd, env: { ...clean, XDG_CONFIG_HOME: "/proc/none", ...env } }));
}

/** again starts the program anew on the address that it had. */
export const again = (server, data, options = {}) => serve(data, { ...options, addr: new URL(server.url).host });

/** look opens the page as a person does, at the printed address. After the test nothing may have gone wrong in it. */
export async function look(server, { at = "", allow = /^$/, ...options } = {}) {
  const context = await browser().newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce", ...options });
  const faults = [];
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await context.exposeFunction("violated", (what) => void faults.push(what));
  await context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (e) => window.violated(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}`));
  });
  note(context, faults, allow);
  atEnd(async () => {
    await context.close();
    assert.deepEqual(faults, [], "nothing went wrong in the page");
  });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  await page.goto(`${server.url}/#token=${server.token}`);
  await page.locator("nav").first().waitFor({ state: "attached" });
  if (at) await page.goto(`${server.url}/${at}`);
  return page;
}

export const timeline = (page) => page.getByRole("log", { name: "Timeline" });
export const header = (page) => page.locator("main header");

/** shows waits until the header tells a state of the sandbox, with its age. */
export const shows = (page, state, within = 20_000) => header(page).locator(".pill").filter({ hasText: state }).filter({ hasText: / ago$/ }).waitFor({ timeout: within });

/** current waits until the address names a session, and returns its id. */
export async function current(page) {
  await page.waitForURL(/#\/s\/[^/]+/);
  return /#\/s\/([^/?]+)/.exec(page.url())[1];
}

/** script writes what a scripted model says, and returns the model's name. */
export function script(steps) {
  const file = join(folder("script"), "script.json");
  writeFileSync(file, JSON.stringify(steps));
  return `script:${file}`;
}
export const bash = (command, text = "") => ({ text, calls: [{ tool: "Bash", input: { command } }] });

/** A server of models in a vendor's wire, which says what its script says; make e2e builds it. */
const modelServer = process.env.MODELSERVER ?? join(here, "../../build/bin/modelserver");

/** models starts a server of models and returns its base URL. */
export async function models(wire, content) {
  const file = join(folder("models"), "script.json");
  writeFileSync(file, JSON.stringify(content));
  return (await start(modelServer, ["--wire", wire, "--script", file])).ready.url;
}
