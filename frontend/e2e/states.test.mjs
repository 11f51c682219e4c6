// The states of a sandbox on the screen, its snapshots and forks, and the form's walls and networks, against the canned server:
//   npm run build && npm run e2e
import assert from "node:assert/strict";
import { test } from "node:test";
import { audit, becomes, quickly, skip, until } from "./browser.mjs";
import { open, page, server } from "./canned.mjs";
import { BY_HAND } from "./machine.mjs";
import { TOKEN } from "./mock.mjs";

const header = () => page.locator("main header");
const panel = () => page.locator("#panel-container");
const form = () => page.getByRole("dialog", { name: "New session" });
const dialog = () => page.getByRole("dialog");
const condition = (value, cause = "") => ({ value, cause, observed_at: new Date().toISOString(), source: "engine" });
const CAUSE = "make the container: no space left on device, and none can be made by hand";
const did = (verb) => server.posts.filter((p) => p.path.endsWith(`/${verb}`));

async function became(value, cause = "") {
  server.change("s2", { status: "idle", waiting: null, sandbox: condition(value, cause) });
  await header().locator(".pill").filter({ hasText: value === "detached" ? "kept, let go" : value }).first().waitFor();
}

test("the making of a sandbox shows bytes, total, speed and time, and is called off", { skip }, async () => {
  await open("#/s/s6");
  await page.getByText("174 MiB of 392 MiB · 9.0 MiB/s · 24 s left · 3 of 8 layers").waitFor();
  const bar = page.getByRole("progressbar", { name: "pulling node:22" });
  assert.equal(await bar.getAttribute("aria-valuenow"), "182000000");
  server.change("s6", { progress: { step: "create", detail: "", bytes: 0, total: 0, bytes_per_second: 0, started_at: new Date().toISOString() } });
  await page.getByRole("progressbar", { name: "create" }).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("Somebody stopped it before it was ready. Nothing of it is left. Re-provision makes one.").waitFor();
  await header().locator(".pill").filter({ hasText: "not made" }).waitFor();
  await header().getByRole("button", { name: "Re-provision" }).waitFor();
  assert.equal(await page.getByText("could not be made").count(), 0, "what a person stopped is no failure");
  assert.equal(did("interrupt").length, 1);
  server.change("s6", { sandbox: condition("failed", CAUSE) });
  await page.locator("main").getByRole("button", { name: "Logs" }).click();
  await dialog().getByText("swap is not limited here").waitFor();
});

test("what was read before there was a sandbox is no fault of the one that is there", { skip }, async () => {
  await open("#/s/s6");
  const answers = [];
  await page.route("**/sessions/s6/container", async (route) => {
    if (answers.length > 0) await new Promise((done) => answers.push(done));
    answers.push(null);
    await route.continue().catch(() => {}); // of a page that is closed
  });
  const first = page.waitForResponse("**/sessions/s6/container");
  await page.goto(`${server.url}#/s/s6/container`);
  await panel().getByText("It is being made").waitFor();
  await first;
  server.change("s6", { short_id: "19cc4de0b7a1", step: "", progress: null, sandbox: condition("ready") });
  await panel().getByLabel("Reading the container").waitFor();
  assert.equal(await panel().getByText("the session has no sandbox").count(), 0);
  await page.unroute("**/sessions/s6/container");
  for (const answer of answers) answer?.();
  await panel().getByRole("meter", { name: "Processes and threads" }).waitFor();
});

test("without the server all that tells of now looks stale at once, and nothing counts on", { skip }, async () => {
  await open("#/s/s1", {}, { reducedMotion: "no-preference" });
  const card = page.getByRole("article", { name: "Bash call, running" });
  const row = page.locator("nav").getByRole("link", { name: "Make the tests of the parser pass" });
  const live = [row.locator(".pill"), header().locator(".pill"), header().locator(".chip"), card.locator(".status")];
  for (const part of live) await part.first().waitFor();
  const colours = () => Promise.all(live.map((l) => l.evaluateAll((all) => all.map((e) => getComputedStyle(e).color))));
  const spinning = () => page.locator(".spin").evaluateAll((all) => all.filter((e) => getComputedStyle(e).animationName !== "none").length);
  await until(async () => (await spinning()) >= 3, "what goes on spins");
  const grey = await page.evaluate(() => Object.assign(document.body.appendChild(document.createElement("i")), { style: "color: var(--text-3)" }) && getComputedStyle(document.body.lastChild).color);
  await until(async () => !(await colours()).flat().includes(grey), "all of it is young");
  const before = await colours();
  await page.context().setOffline(true);
  server.dropAll();
  await page.getByText("The server does not answer. What you see is").waitFor();
  await becomes(colours, before.map((all) => all.map(() => grey)));
  await becomes(spinning, 0);
  const took = await card.locator(".took").textContent();
  await page.waitForTimeout(2_500); // the clock ticks each second
  assert.equal(await card.locator(".took").textContent(), took);
  await page.context().setOffline(false);
  await page.getByText("The server does not answer.").waitFor({ state: "detached" });
  await becomes(colours, before, "the states are heard again"); // those of before may be old by now
  assert.notEqual(await card.locator(".took").textContent(), took);
});

test("an attach that failed speaks of no turn and of no sandbox that is there", { skip }, async () => {
  await open("#/s/s2/terminal");
  server.change("s2", { status: "idle", waiting: null, adopted: true, suspended: "no_sandbox", detail: `attach the container: ${CAUSE}`, sandbox: condition("failed", `attach the container: ${CAUSE}`) });
  await page.getByText("The container could not be attached: ").waitFor();
  await page.locator("#panel-terminal").getByText("There is no sandbox", { exact: true }).waitFor();
  assert.equal(await page.getByText(/turn failed/i).count(), 0);
  assert.equal(await page.locator("main").getByRole("button", { name: "Retry" }).count(), 0);
});

test("each state says what it means and offers what helps", { skip }, async () => {
  await open("#/s/s2/container");
  await panel().getByText("Memory", { exact: true }).first().waitFor();
  for (const { value, cause, says, act, verb } of [
    { value: "paused", says: "frozen by someone else", act: "Unpause", verb: "unpause" },
    { value: "stopped", cause: "by hand", says: "Somebody stopped it.", act: "Start", verb: "start" },
    { value: "stopped", cause: "killed", says: "killed from outside", act: "Start", verb: "start" },
    { value: "stopped", cause: "out of memory", says: "its limit is 2g", act: "Start", verb: "start" },
    { value: "stopped", cause: "idle", says: "Nobody used it for a while", act: "Start", verb: "start" },
    { value: "unreachable", cause: "engine not answering", says: "nothing is started twice meanwhile", act: "Attach", verb: "attach" },
    { value: "lost", cause: "removed", says: "Somebody removed it. It is gone. The workspace is not", act: "Re-provision", verb: "reprovision" },
    { value: "released", cause: "others share it; it stays", says: "stays until the last of them lets go", act: "Re-provision", verb: "reprovision" },
    { value: "detached", cause: "by hand", says: "It was kept and runs without us", act: "Attach", verb: "attach" },
  ]) {
    await became(value, cause);
    await panel().getByText(says).waitFor();
    assert.equal(await panel().getByText("It was removed").count(), 0);
    const before = did(verb).length;
    await header().getByRole("button", { name: act, exact: true }).click();
    await header().locator(".pill").filter({ hasText: "ready" }).waitFor();
    assert.equal(did(verb).length, before + 1, `${value} is answered by ${verb}`);
  }
  await became("releasing");
  await panel().getByText("We let go of it").waitFor();
  await panel().getByRole("button", { name: "Release" }).click({ force: true }); // one that says why not
  await panel().getByText("Wait: the sandbox is releasing").waitFor();
  await became("failed", CAUSE);
  await panel().getByText("The sandbox could not be made or started.").waitFor();
  await header().getByRole("button", { name: "Re-provision" }).waitFor();
  server.change("s2", { suspended: "turn_failed", detail: `turn failed: the sandbox: ${CAUSE}` });
  await page.getByText("The turn failed: it has no sandbox").waitFor();
  await becomes(async () => (await page.locator("body").innerText()).split(CAUSE).length - 1, 1, "the cause is told once");
  // With the lines of its log, the card tells more than the banner does.
  server.tell("s2", "SandboxStateChanged", { condition: condition("failed", CAUSE), ref: "", detail: `${CAUSE}; its last lines:\nno such user` });
  await panel().locator(".words").getByText("no such user").waitFor();
});

test("why a sandbox failed is read whole on a narrow screen, and no other fault is shown as its words", { skip }, async () => {
  await open("#/s/s2/container", {}, { viewport: { width: 360, height: 740 } });
  await panel().getByText("Memory", { exact: true }).first().waitFor();
  server.change("s2", { status: "idle", waiting: null, sandbox: condition("failed", CAUSE) });
  const words = panel().locator(".words");
  await words.getByText(CAUSE).waitFor();
  assert.ok(await words.evaluate((e) => e.scrollWidth <= e.clientWidth && e.getBoundingClientRect().right <= innerWidth));
  await page.goto(`${server.url}#/s/s2`);
  await page.getByText(`could not be made or started: ${CAUSE}`).waitFor();
});

test("the chip says whose walls there are, and is not there without a sandbox", { skip }, async () => {
  await open("#/s/s2/container");
  const chip = header().locator(".chip");
  await header().getByRole("button", { name: "isolated · a81e…" }).waitFor();
  for (const value of ["stopped", "failed", "lost", "released"]) {
    await became(value);
    await chip.waitFor({ state: "detached" });
  }
  await became("ready");
  server.change("s2", { adopted: true, network: "open" });
  await header().getByRole("button", { name: "found: its own walls" }).waitFor();
  await header().getByText("network open").waitFor();
  await until(async () => /warn/.test(await chip.getAttribute("class")), "the chip warns");
  await panel().getByRole("button", { name: "Snapshot…" }).click({ force: true }); // one that says why not
  await panel().getByText("docker commit makes an image of it").waitFor();
  server.change("s2", { adopted: false, wall: "remote" });
  await header().getByRole("button", { name: "remote: its own walls" }).waitFor();
  await until(async () => !/good|warn/.test(await chip.getAttribute("class")), "the chip says neither well nor ill");
});

test("a found container that is gone offers a new session, and one that was left keeps its changes", { skip }, async () => {
  await open("#/s/s2/container");
  server.change("s2", { adopted: true });
  await became("lost", "removed");
  await panel().getByText("The container that was there before is gone").waitFor();
  await becomes(() => page.getByRole("button", { name: "Re-provision" }).count(), 0);
  await panel().getByRole("button", { name: "New session" }).waitFor();
  await header().getByRole("button", { name: "New session" }).click();
  await form().waitFor();
  await page.keyboard.press("Escape");
  await page.goto(`${server.url}#/s/s2/container`);
  await became("released");
  await panel().getByText("The guest is out of it; what was changed in it stays.").waitFor();
});

test("the header and the card tell one state, the newest that was observed", { skip }, async () => {
  await open("#/s/s2/container");
  await panel().getByText("Memory", { exact: true }).first().waitFor();
  const early = new Date(Date.now() - 5_000).toISOString();
  await became("stopped", "killed");
  server.late("s2", { title: "Told late", sandbox: { value: "ready", cause: "", observed_at: early, source: "engine" } });
  await page.getByRole("heading", { name: "Told late" }).waitFor();
  const tells = () => Promise.all([header().locator(".pill").nth(1), panel().locator(".pill").first()].map(async (pill) => /^stopped: killed/.test(await pill.innerText())));
  await becomes(tells, [true, true]);
  await becomes(() => panel().locator("button.primary").innerText(), "Start");
  await becomes(() => header().locator("button.primary").innerText(), "Start");
});

test("an address with a token that is pasted into the open page loses it", { skip }, async () => {
  await open("#/s/s2");
  await page.evaluate((token) => (location.hash = `#token=${token}&/s/s1`), TOKEN);
  await page.waitForURL(/#\/s\/s1$/);
  await page.getByRole("heading", { name: "Make the tests of the parser pass" }).waitFor();
  assert.ok(!page.url().includes("token"));
});

test("keys do what the buttons of a sandbox do, and say why where they cannot", { skip }, async () => {
  await open("#/s/s2");
  await page.getByRole("log").waitFor();
  await became("paused");
  await quickly(page, "c", "s");
  await header().locator(".pill").filter({ hasText: "ready" }).waitFor();
  assert.equal(did("unpause").length, 1);
  await quickly(page, "c", "a");
  await page.getByText("It is attached.").waitFor();
  await quickly(page, "c", "p");
  await dialog().getByRole("heading", { name: /Snapshot of/ }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Find an action or a session" }).fill("fork");
  await page.getByRole("option", { name: /Fork/, selected: true }).waitFor();
  await page.keyboard.press("Enter");
  await dialog().getByRole("heading", { name: /^Fork/ }).waitFor();
  await page.keyboard.press("Escape");
  await quickly(page, "c", "o");
  await page.locator(".xterm-rows").last().getByText("kim@sandbox").first().waitFor();
});

test("a snapshot is named, shows that it is made, and a session starts from it", { skip }, async () => {
  await open("#/s/s1/container");
  await panel().getByRole("button", { name: "Snapshot…" }).click();
  await dialog().getByLabel("Name").fill("taken");
  await page.keyboard.press("Enter");
  await dialog().getByText("there is a snapshot of that name already").waitFor();
  server.work = -1;
  await dialog().getByLabel("Name").fill("tools");
  await page.keyboard.press("Enter");
  await dialog().getByText("snapshot of the sandbox").waitFor();
  await dialog().getByRole("status").getByRole("button", { name: "Cancel" }).click();
  await dialog().getByText("it was called off; nothing of it is left").waitFor();
  server.work = 100;
  await dialog().getByRole("button", { name: "Take it" }).click();
  await dialog().getByText("glovebox/snapshot:tools").waitFor();
  await dialog().getByText("393 MiB, with all that it is made on").waitFor();
  await dialog().getByRole("button", { name: "New session from it" }).click();
  await becomes(() => form().getByRole("combobox", { name: "Image" }).inputValue(), "glovebox/snapshot:tools");
});

test("a fork says what both share, and opens", { skip }, async () => {
  await open("#/s/s1/container");
  await panel().getByRole("button", { name: "Fork…" }).click();
  await dialog().getByText("Both write to /home/kim/src/parser at the same time").waitFor();
  await dialog().getByRole("radio", { name: /^copied/ }).check();
  await dialog().getByText("The fork works on a copy").waitFor();
  await dialog().getByRole("group", { name: "Sandbox" }).getByRole("radio", { name: /^shared/ }).check();
  await dialog().getByText("One sandbox has one workspace.").waitFor();
  await dialog().getByText("common to both").waitFor();
  await dialog().getByLabel("Title").fill("The other way");
  await dialog().getByRole("button", { name: "Fork", exact: true }).click();
  await page.getByRole("heading", { name: "The other way" }).waitFor();
  assert.deepEqual(did("fork")[0].body, { title: "The other way", sandbox: "share", workspace: "share" });
  await header().getByText("shared").waitFor();
  await page.getByRole("tab", { name: "Container" }).click();
  await panel().getByText("Forked from").getByRole("link", { name: "Make the tests of the parser pass" }).click();
  await panel().getByText("Shared with").getByRole("link", { name: "The other way" }).waitFor();
});

test("the form: the proxy is chosen, with what it lets through, and the command follows", { skip }, async () => {
  await open("#/new");
  await form().getByRole("textbox", { name: "Goal", exact: true }).fill("go");
  await form().getByRole("button", { name: /mounts and limits/ }).click();
  await until(() => form().getByRole("radio", { name: /^proxy/ }).isChecked(), "the proxy is chosen");
  const allow = form().getByRole("textbox", { name: "Let through besides" });
  await allow.fill("registry.lan:5000\nhttp://bad");
  await form().getByRole("button", { name: "Open session" }).click();
  await form().getByText('"http://bad" is not HOST[:PORT]').waitFor();
  await becomes(() => allow.getAttribute("aria-invalid"), "true");
  await allow.fill("registry.lan:5000\n*.corp.example");
  await form().getByText(/--network proxy --allow registry\.lan:5000 --allow '\*\.corp\.example'/).waitFor();
  await form().getByRole("radio", { name: "Linux namespaces" }).check();
  await becomes(() => form().getByRole("radio", { name: /^open/ }).count(), 0, "only a container can have an open network");
  await form().getByRole("radio", { name: "Docker container" }).check();
  await form().getByRole("radio", { name: /^aio/ }).check();
  await form().getByText("without the wire").waitFor();
  await form().getByRole("button", { name: "Open session" }).click();
  await form().waitFor({ state: "detached" });
  const { spec } = server.posts.at(-1).body;
  assert.deepEqual(spec, { wall: "docker", user: "host", wire: "aio", network: { mode: "proxy", allow: ["registry.lan:5000", "*.corp.example"] } });
});

test("the form: a remote sandbox by its URL", { skip }, async () => {
  await open("#/new");
  await form().getByRole("textbox", { name: "Goal", exact: true }).fill("go");
  await form().getByRole("radio", { name: "Remote sandbox" }).check();
  await form().getByRole("textbox", { name: "Workspace" }).waitFor({ state: "detached" });
  await form().getByRole("button", { name: "Open session" }).click();
  await form().getByText("Write the URL of a sandbox.").waitFor();
  await form().getByRole("textbox", { name: "URL", exact: true }).fill("https://box.example/a");
  await form().getByText("glovebox run --wall https://box.example/a --model demo go").waitFor();
  await form().getByRole("button", { name: "Open session" }).click();
  await form().waitFor({ state: "detached" });
  assert.deepEqual(server.posts.at(-1).body.spec, { wall: "remote", base_url: "https://box.example/a", network: {} });
});

test("an image is pulled by name with bytes and speed, called off, refused, and there at the end", { skip }, async () => {
  await open("#/new");
  const image = form().getByRole("combobox", { name: "Image" });
  server.machine.step = BY_HAND;
  await image.fill("python:3.13");
  await page.keyboard.press("Escape");
  await form().getByRole("button", { name: "Pull it" }).click();
  await form().getByRole("status", { name: "Pull of the image" }).waitFor();
  server.machine.builds.get("pull python:3.13").next();
  await form().getByRole("status", { name: "Pull of the image" }).getByText(/7\.1 MiB of 71 MiB · 8\.6 MiB\/s .*1 of 4 layers/).waitFor();
  await form().getByRole("status", { name: "Pull of the image" }).getByRole("button", { name: "Cancel" }).click();
  await form().getByText("The pull was cancelled").waitFor();
  server.machine.step = 20;
  await form().getByRole("button", { name: "Pull it" }).click();
  await form().getByText(/^python:3\.13: 75 MiB/).waitFor();
  await image.fill("private/thing:1");
  await page.keyboard.press("Escape");
  await form().getByRole("button", { name: "Pull it" }).click();
  await form().getByText("the registry refused: unauthorized").waitFor();
});

for (const theme of ["light", "dark"]) {
  test(`axe finds nothing in the states and dialogs, ${theme}`, { skip }, async () => {
    await open("#/s/s6/container", {}, { colorScheme: theme });
    await page.getByText("3 of 8 layers").first().waitFor();
    const found = await audit(page, "allocating");
    await page.goto(`${server.url}#/s/s2/container`);
    await became("failed", "no space left on device");
    server.tell("s2", "SandboxStateChanged", { condition: condition("failed", "no space left on device"), ref: "", detail: "no space left on device\n".repeat(40) });
    await panel().getByRole("group", { name: "Why it failed" }).waitFor();
    found.push(...(await audit(page, "failed")));
    await page.goto(`${server.url}#/s/s1/container`);
    server.work = -1;
    await panel().getByRole("button", { name: "Fork…" }).click();
    await dialog().getByRole("button", { name: "Fork", exact: true }).click();
    await dialog().getByText("412 files").waitFor();
    found.push(...(await audit(page, "fork", { within: "dialog" })));
    await page.keyboard.press("Escape");
    await panel().getByRole("button", { name: "Snapshot…" }).click();
    await dialog().getByLabel("Name").waitFor();
    found.push(...(await audit(page, "snapshot", { within: "dialog" })));
    await page.keyboard.press("Escape");
    await page.goto(`${server.url}#/new`);
    await form().getByRole("radio", { name: "Remote sandbox" }).check();
    found.push(...(await audit(page, "remote", { within: "dialog" })));
    assert.deepEqual(found, []);
  });
}
