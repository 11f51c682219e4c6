// Takes a picture of every view over the canned server, at three widths and in both themes:
//   npm run build && node e2e/shots.mjs [DIR] [VIEW…]      (or: make shots)
// The clock of both sides stands still, so that the same screen gives the same picture. SIZES and THEMES
// narrow what is taken: SIZES=360 THEMES=dark.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { launch } from "./browser.mjs";
import { thin } from "./png.mjs";

process.env.MOCK_NOW ??= "2026-05-04T10:00:00Z";
const { start, TOKEN } = await import("./mock.mjs");
const { now, stamp } = await import("./clock.mjs");

const [dir = "../docs/screenshots", ...chosen] = process.argv.slice(2);
const heights = { 360: 740, 1024: 720, 1920: 1080 };
const sizes = (process.env.SIZES ?? Object.keys(heights).join()).split(",").map(Number);
const themes = (process.env.THEMES ?? "light,dark").split(",");

const nav = (page) => page.getByRole("navigation", { name: "Sessions" });
const form = (page) => page.getByRole("dialog", { name: "New session" });

/** live plays the output of the call that runs in the first session. */
async function live(page, server) {
  await page.getByText("Now all tests again").waitFor();
  const said = ["=== RUN   TestLexer_tabs", "--- PASS: TestLexer_tabs (0.00s)", "=== RUN   TestLexer_eof", "--- PASS: TestLexer_eof (0.00s)", "=== RUN   TestParser"].map((l) => `${l}\n`).join("");
  server.live({ session_id: "s1", kind: "output", call_id: "live1", stream: "stdout", offset: 0, end: said.length, data: said });
  await page.getByText("TestParser").first().waitFor();
}

async function fill(page) {
  await form(page).getByRole("textbox", { name: "Goal", exact: true }).fill("Run the tests. Find out why those that fail do, fix the cause, and run them all again.");
  await form(page).getByRole("textbox", { name: "Workspace", exact: true }).fill("/home/dev/src/parser");
}

async function type(page, text) {
  await page.getByRole("button", { name: "Open a terminal", exact: true }).first().click();
  await page.locator(".xterm-rows").last().getByText("kim@sandbox").first().waitFor();
  await page.keyboard.type(text);
}

async function openFile(page, name) {
  await page.getByRole("treeitem", { name }).first().click();
}

const browserPanel = (page) => page.locator("#panel-browser");

/** picture waits until the first session's browser is seen. */
async function picture(page, server) {
  await browserPanel(page).locator("canvas").waitFor();
  while (server.browser("s1").got.length === 0) await page.waitForTimeout(20);
}

/** hands has the agent ask for them, and takes control. */
async function hands(page, server) {
  await picture(page, server);
  server.change("s1", { status: "waiting", waiting: [{ call_id: "c9", tool: "browser_ask_person", kind: "hands", reason: "", text: "Sign in to Harbour Tickets. I do not know the password.", options: null }] });
  await browserPanel(page).getByRole("button", { name: "Take control" }).first().click();
  await browserPanel(page).getByText("You have control", { exact: true }).waitFor();
}

const node = (depth, role, name = "", more = {}) => ({ depth, role, name, ...more });
const outline = {
  tab: { number: 1, target: "T1", url: "https://tickets.example/sign-in", title: "Harbour Tickets: sign in", active: true, loading: false, crashed: false },
  cut: false,
  nodes: [
    node(0, "RootWebArea", "Harbour Tickets: sign in"), node(1, "banner"), node(2, "text", "Harbour Tickets"), node(2, "text", "Ferries"), node(2, "text", "Timetable"),
    node(1, "main"), node(2, "heading", "Your bookings are one step away.", { level: 1 }), node(2, "text", "Sign in to see your tickets, change a crossing or ask for a refund."),
    node(2, "list"), node(3, "listitem", "Kiel – Oslo, tomorrow, 14:00, from 89 €"), node(3, "listitem", "Rostock – Gedser, every two hours, from 24 €"),
    node(2, "form"), node(3, "heading", "Sign in", { level: 2 }), node(3, "textbox", "E-mail", { value: "kim@example.com" }), node(3, "textbox", "Password", { states: ["protected"] }), node(3, "button", "Continue"),
  ],
};

/** card scrolls the timeline to a text in it. */
const card = (text) => async (page) => {
  await page.getByRole("log").getByText(text).first().evaluate((e) => (e.closest("article") ?? e).scrollIntoView({ block: "start" }));
};

/** end ends that call, and its turn with it. */
function end(server, detail) {
  const output = "ok  \texample.com/parser\t4.113s\n";
  server.tell("s1", "ToolResultRecorded", {
    call_id: "live1", tool: "Bash", status: "ok", text: "", images: null, files: null, where: { wall: "docker", sandbox_id: "3f2a9c", workdir: "/workspace", boot: "b1" }, duration: 4e9,
    display: { command: "go test -race -v ./...", description: "", exit_code: 0, signal: 0, timed_out: false, interrupted: false, out_of_memory: false, stdout: output, stderr: "", stdout_total: output.length, stderr_total: 0, dropped: 0, background: null, kill: null, duration_ms: 4000 },
  });
  server.tell("s1", "ToolCallFinished", { call_id: "live1" });
  if (detail) server.tell("s1", "TaskSuspended", { reason: "turn_failed", wake_on: "retry", detail });
}

/** Each view: where it is, what its server has, what is put there before, and what is done until it is there. */
const views = {
  "start": { ready: (page) => page.getByRole("heading", { name: "Recent sessions" }).waitFor() },
  "start-empty": { options: { empty: true }, ready: (page) => page.getByText("A sealed container").waitFor() },
  "start-faults": {
    options: { broken: true },
    prepare: (server) => {
      Object.assign(server.machine.about.walls[0], { available: false, detail: "nothing listens at /var/run/docker.sock" });
      server.machine.about.default_wall = "namespace";
    },
    ready: (page) => page.getByRole("region", { name: "Checks" }).getByText("sudo systemctl").waitFor(),
  },
  "start-no-wall": { options: { empty: true, bare: true }, ready: (page) => page.getByText("has no wall yet").first().waitFor() },
  "checks": { at: "/doctor", options: { broken: true }, ready: (page) => page.getByText("in the way").waitFor() },
  "new": { at: "/new", ready: fill },
  "new-unfolded": {
    at: "/new",
    ready: async (page) => {
      await fill(page);
      await form(page).getByRole("button", { name: /mounts and limits/ }).click();
      await form(page).getByRole("button", { name: "Add a mount" }).click();
      await page.keyboard.type("/srv/data set");
      await form(page).getByRole("button", { name: /mounts and limits/ }).evaluate((e) => e.scrollIntoView({ block: "start" }));
    },
  },
  "new-no-wall": {
    at: "/new",
    ready: async (page) => {
      await fill(page);
      await form(page).getByRole("radio", { name: "No wall" }).check();
      await form(page).getByText("I understand").scrollIntoViewIfNeeded();
    },
  },
  "folders": {
    at: "/new",
    ready: async (page) => {
      await form(page).getByRole("button", { name: "Choose the workspace" }).click();
      await page.getByText("parser", { exact: true }).or(page.getByText("notes", { exact: true })).first().waitFor();
    },
  },
  "running": { at: "/s/s1", ready: live },
  "approval": { at: "/s/s2", ready: (page) => page.getByText("npm install --save-dev").first().waitFor() },
  "cards": { at: "/s/s4", ready: card("The tests of the lexer fail") },
  "cards-change": { at: "/s/s4", ready: card("Only a blank is skipped") },
  "cards-kill": { at: "/s/s4", ready: card("timeout 1 sleep 100") },
  "answer": { at: "/s/s4", ready: card("What changed") },
  "cards-more": { at: "/s/s4", ready: (page) => page.getByText("PARSER-7").or(page.getByText("create_ticket")).first().waitFor() },
  "retry": {
    at: "/s/s1",
    ready: async (page, server) => {
      await live(page, server);
      end(server);
      server.change("s1", { retry: { attempt: 2, attempts: 6, at: stamp(now() + 24_000), kind: "overloaded", detail: "529 overloaded_error" }, running: [] });
      await page.getByText("The model is overloaded").first().waitFor();
    },
  },
  "parked": {
    at: "/s/s1",
    ready: async (page, server) => {
      const detail = "set ANTHROPIC_API_KEY where Glovebox runs, and start it again";
      await live(page, server);
      end(server, detail);
      server.change("s1", { status: "idle", model: "anthropic:claude-sonnet-4-5", suspended: "turn_failed", detail, running: [] });
      await page.getByText(/ANTHROPIC_API_KEY/).first().waitFor();
    },
  },
  "container": { at: "/s/s1/container", ready: async (page, server) => (await live(page, server), await page.waitForTimeout(6500)) },
  "container-stopped": { at: "/s/s3/container", ready: (page) => page.getByText("out of memory").first().waitFor() },
  "container-lost": { at: "/s/s5/container", ready: (page) => page.getByText("It is gone").first().waitFor() },
  "containers": { at: "/containers", ready: (page) => page.getByText("shop-db-1").first().waitFor() },
  "containers-unfolded": {
    at: "/containers",
    prepare: (server) => server.engine.list.splice(1, 0, ...server.engine.list.splice(4, 1)),
    ready: async (page, server) => {
      await page.getByText("shop-db-1").first().waitFor();
      await page.goto(`${server.url}#/containers/${server.engine.of("glovebox-i1-s1-1").short_id}`);
      await page.getByText("By hand, without Glovebox").waitFor();
      await page.waitForTimeout(4500);
    },
  },
  "containers-away": {
    at: "/containers",
    prepare: ({ engine }) => {
      engine.error = "the engine at unix:///var/run/docker.sock does not answer: connect: no such file or directory";
      engine.seenAt = stamp(now() - 42_000);
      for (const c of engine.list) c.condition.observed_at = engine.seenAt;
    },
    ready: (page) => page.getByText("what you see is").waitFor(),
  },
  "containers-empty": { at: "/containers", options: { empty: true }, ready: (page) => page.getByText("The engine has no containers").waitFor() },
  "network": { at: "/s/s1/network", ready: (page) => page.getByText("db.lan:5432").first().waitFor() },
  "network-none": { at: "/s/s2/network", ready: (page) => page.getByText("There is no way out").waitFor() },
  "network-open": { at: "/s/s5/network", ready: (page) => page.getByText("Nothing is recorded here").waitFor() },
  "new-remote": {
    at: "/new",
    ready: async (page) => {
      await form(page).getByRole("textbox", { name: "Goal", exact: true }).fill("Look what this machine has.");
      await form(page).getByRole("radio", { name: "Remote sandbox" }).check();
      await form(page).getByRole("textbox", { name: "URL", exact: true }).fill("http://10.0.0.7:8080");
    },
  },
  "new-network": {
    at: "/new",
    ready: async (page) => {
      await fill(page);
      await form(page).getByRole("button", { name: /mounts and limits/ }).click();
      await form(page).getByRole("textbox", { name: "Let through besides" }).fill("registry.lan:5000\n*.corp.example");
      await form(page).getByText("Network", { exact: true }).evaluate((e) => e.scrollIntoView({ block: "start" }));
    },
  },
  "new-pull": {
    at: "/new",
    ready: async (page, server) => {
      server.machine.step = 100_000;
      await fill(page);
      await form(page).getByRole("combobox", { name: "Image" }).fill("python:3.13");
      await page.keyboard.press("Escape");
      await form(page).getByRole("button", { name: "Pull it" }).click();
      server.machine.builds.get("pull python:3.13").state.bytes = 31_000_000;
      server.machine.broadcast({ type: "build", build: server.machine.builds.get("pull python:3.13").state });
      await form(page).getByText("9 MiB/s").or(form(page).getByText("8.6 MiB/s")).waitFor();
      await form(page).getByRole("status", { name: "Pull of the image" }).scrollIntoViewIfNeeded();
    },
  },
  "browser": {
    at: "/s/s1/browser",
    ready: async (page, server) => {
      await picture(page, server);
      server.browser("s1").tell({}, { kind: "download", text: "ticket-4711.pdf was downloaded (81 kB)" });
      await browserPanel(page).locator(".news").waitFor();
    },
  },
  "browser-control": { at: "/s/s1/browser", ready: hands },
  "browser-dialog": {
    at: "/s/s1/browser",
    ready: async (page, server) => {
      await picture(page, server);
      server.browser("s1").tell({ dialog: { kind: "prompt", text: "Your booking number?", default: "4711", url: "https://tickets.example/", opened: stamp(), until: stamp(now() + 9_000) } });
      await browserPanel(page).getByRole("dialog").waitFor();
    },
  },
  "browser-text": {
    at: "/s/s1/browser",
    ready: async (page, server) => {
      await page.route("**/browser/outline", (route) => route.fulfill({ json: outline }));
      await picture(page, server);
      await browserPanel(page).getByRole("radio", { name: "Text" }).click();
      await page.getByRole("searchbox", { name: "Search the page's text" }).fill("sign in");
      await page.getByText("1 of 3").waitFor();
    },
  },
  "browser-recording": { at: "/s/s1/browser?moment=b1", ready: (page) => page.getByRole("region", { name: "Recording", exact: true }).locator("img").waitFor() },
  "browser-stopped": { at: "/s/s2/browser", ready: (page) => page.getByText("The browser is not running").waitFor() },
  "allocating": { at: "/s/s6/container", ready: (page) => page.getByText("3 of 8 layers").first().waitFor() },
  "failed": {
    at: "/s/s6/container",
    prepare: (server) => server.change("s6", { status: "idle", step: "", progress: null, sandbox: { value: "failed", cause: "pull node:22: the registry does not know it", observed_at: stamp(), source: "ledger" } }),
    ready: (page) => page.getByText("could not be made or started").first().waitFor(),
  },
  "paused": {
    at: "/s/s2/container",
    prepare: (server) => server.change("s2", { status: "idle", waiting: null, sandbox: { value: "paused", cause: "", observed_at: stamp(), source: "engine" } }),
    ready: (page) => page.getByText("frozen by someone else").first().waitFor(),
  },
  "unreachable": {
    at: "/s/s2/container",
    prepare: (server) => server.change("s2", { status: "idle", waiting: null, sandbox: { value: "unreachable", cause: "engine not answering", observed_at: stamp(now() - 33_000), source: "engine" } }),
    ready: (page) => page.getByText("tried again by itself").first().waitFor(),
  },
  "snapshot": {
    at: "/s/s1/container",
    ready: async (page) => {
      await page.getByRole("button", { name: "Snapshot…" }).click();
      await page.getByRole("dialog").getByRole("textbox").fill("with-tools");
    },
  },
  "snapshot-done": {
    at: "/s/s1/container",
    ready: async (page) => {
      await page.getByRole("button", { name: "Snapshot…" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Take it" }).click();
      await page.getByText("It is kept as an image").waitFor();
    },
  },
  "fork": {
    at: "/s/s1/container",
    ready: async (page) => {
      await page.getByRole("button", { name: "Fork…" }).click();
      await page.getByRole("dialog").getByRole("radio", { name: /^copied/ }).check();
    },
  },
  "fork-running": {
    at: "/s/s1/container",
    ready: async (page, server) => {
      server.work = -1;
      await page.getByRole("button", { name: "Fork…" }).click();
      await page.getByRole("dialog").getByRole("radio", { name: /^copied/ }).check();
      await page.getByRole("dialog").getByRole("button", { name: "Fork", exact: true }).click();
      await page.getByRole("dialog").getByText("412 files").waitFor();
    },
  },
  "logs": {
    at: "/s/s1/container",
    ready: async (page) => {
      await page.getByRole("button", { name: /Logs/ }).first().click();
      await page.getByText("swap is not limited").waitFor();
    },
  },
  "terminal": { at: "/s/s1/terminal", ready: async (page) => (await type(page, "ls\ntest\n"), await page.getByText("0.004s").last().waitFor()) },
  "files": {
    at: "/s/s1/files//workspace/internal/lexer/lexer.go",
    ready: (page) => page.getByText("returns the token that follows").first().waitFor(),
  },
  "files-image": {
    at: "/s/s1/files//workspace/logo.png",
    prepare: (server) => server.put("s1", "/workspace/logo.png", logo),
    ready: (page) => page.getByRole("img", { name: "logo.png" }).waitFor(),
  },
  "isolation": {
    at: "/s/s1",
    ready: async (page) => {
      await page.locator("main header").getByRole("button", { name: /isolat|apart|wall/i }).first().click();
      await page.getByText("workbench").first().waitFor();
    },
  },
  "split": {
    at: "/s/s1/terminal?below=container",
    ready: async (page, server) => (await live(page, server), await type(page, "ls\n"), await page.waitForTimeout(4500)),
  },
  "pop-out": { at: "/p/s1/files//workspace/internal/lexer/lexer.go", ready: (page) => page.getByText("returns the token that follows").first().waitFor() },
  "palette": {
    at: "/s/s1",
    ready: async (page) => {
      await page.getByText("race detector").first().waitFor();
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox", { name: "Find an action or a session" }).fill("con");
      await page.locator("#palette-0").waitFor();
    },
  },
  "help": {
    ready: async (page) => {
      await page.getByRole("heading", { name: "Recent sessions" }).waitFor();
      await page.keyboard.press("?");
      await page.getByRole("dialog").getByRole("heading").first().waitFor();
    },
  },
  "list": {
    options: { extra: 12 },
    ready: async (page, server) => {
      for (const id of ["m1", "m2", "m4"]) server.change(id, { archived: true });
      if ((page.viewportSize()?.width ?? 0) < 720) await page.getByRole("button", { name: "Sessions" }).click();
      await nav(page).getByLabel("State").selectOption("archived");
      await nav(page).getByRole("searchbox").fill("older");
      await nav(page).getByText("Older work 4").waitFor();
    },
  },
  "offline": {
    at: "/s/s1",
    ready: async (page, server) => {
      await live(page, server);
      await page.context().setOffline(true);
      server.dropAll();
      await page.getByText("The server does not answer").first().waitFor();
    },
  },
  "sign-in": { token: "no", ready: (page) => page.getByRole("textbox").first().waitFor() },
};

await mkdir(dir, { recursive: true });
const browser = await launch("--hide-scrollbars", "--font-render-hinting=none");
const easel = await browser.newPage({ viewport: { width: 256, height: 256 } });
await easel.setContent(`<body style="margin:0">${await readFile(fileURLToPath(new URL("../public/icon.svg", import.meta.url)), "utf8")}`);
await easel.addStyleTag({ content: "svg { width: 256px; height: 256px }" });
const logo = await easel.screenshot({ omitBackground: true });
await easel.close();
const faults = new Set();
let bytes = 0;

async function take(name, width, theme) {
  const { at = "/", options = {}, token = TOKEN, prepare, ready } = views[name];
  const server = await start(0, options);
  prepare?.(server);
  const context = await browser.newContext({ viewport: { width, height: heights[width] }, colorScheme: theme, reducedMotion: "reduce" });
  try {
    const page = await context.newPage();
    page.setDefaultTimeout(60_000);
    page.on("pageerror", (e) => faults.add(`${name}: ${e}`));
    await page.clock.setFixedTime(now());
    if (name !== "running") await context.addInitScript(() => localStorage.setItem("glovebox.hints", "seen"));
    await page.goto(`${server.url}#token=${token}&${at}`);
    await ready(page, server);
    await page.evaluate(() => document.fonts.ready);
    await page.waitForTimeout(400);
    const png = thin(await page.screenshot({ caret: "hide" }));
    bytes += png.length;
    await writeFile(`${dir}/${name}-${width}-${theme}.png`, png);
  } catch (err) {
    faults.add(`${name} at ${width} ${theme}: ${String(err).split("\n")[0]}`);
  } finally {
    await context.close();
    await server.close();
  }
}

const jobs = themes.flatMap((theme) => sizes.flatMap((width) => (chosen.length ? chosen : Object.keys(views)).map((name) => [name, width, theme])));
await Promise.all(Array.from({ length: 4 }, async () => {
  for (let job = jobs.shift(); job; job = jobs.shift()) await take(...job);
}));
await browser.close();
console.log(`${(bytes / 1e6).toFixed(1)} MB in ${dir}`);
for (const f of faults) console.log("fault:", f);
process.exitCode = faults.size > 0 ? 1 : 0;
