// What a person does, in a real browser against the canned server:
//   npm run build && npm run e2e
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { audit, becomes, quickly, skip, until } from "./browser.mjs";
import { page, serve, server, view } from "./canned.mjs";
import { TOKEN } from "./mock.mjs";

beforeEach(async () => {
  if (skip) return;
  await serve();
  await view({ viewport: { width: 1280, height: 800 }, reducedMotion: "no-preference" });
});

async function open(session) {
  await page.goto(`${server.url}#token=${TOKEN}`);
  await page.getByRole("navigation", { name: "Sessions" }).getByText("Upgrade the linter").waitFor();
  if (session) await page.getByRole("navigation", { name: "Sessions" }).getByRole("link", { name: session }).click();
}

test("the token leaves the address and the content security policy holds", { skip }, async () => {
  await open();
  assert.equal(new URL(page.url()).hash, "");
  await page.reload();
  await page.getByRole("navigation", { name: "Sessions" }).getByRole("link", { name: "Upgrade the linter" }).waitFor();
});

test("without a token the page asks for the printed URL", { skip }, async () => {
  await page.goto(server.url);
  await page.getByLabel("URL or token").fill(`${server.url}#token=${TOKEN}`);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("navigation", { name: "Sessions" }).getByRole("link", { name: "Upgrade the linter" }).waitFor();
});

test("a refused token asks for another one", { skip }, async () => {
  await page.goto(`${server.url}#token=wrong`);
  await page.getByRole("heading", { name: "Open the address that Glovebox printed" }).waitFor();
});

test("live output and text show, and give way to what is durable", { skip }, async () => {
  await open("Make the tests of the parser pass");
  const log = page.getByRole("log", { name: "Timeline" });
  await log.getByText("go test -race -v ./...").waitFor();
  server.live({ session_id: "s1", kind: "output", call_id: "live1", stream: "stdout", offset: 0, end: 9, data: "\x1b[31mred\x1b[0m" });
  await log.getByText("red", { exact: true }).waitFor();
  const where = { wall: "docker", sandbox_id: "3f2a9c", workdir: "/workspace", boot: "b1" };
  server.tell("s1", "ToolResultRecorded", {
    call_id: "live1", tool: "Bash", status: "ok", text: "", images: null, files: null, where, duration: 4e9,
    display: { command: "go test", description: "", exit_code: 0, signal: 0, timed_out: false, interrupted: false, out_of_memory: false, stdout: "durable", stderr: "", stdout_total: 7, stderr_total: 0, dropped: 0, background: null, kill: null, duration_ms: 4000 },
  });
  await log.getByText("durable").waitFor();
  await log.getByText("red", { exact: true }).waitFor({ state: "detached" });
  server.live({ session_id: "s1", kind: "text", offset: 0, end: 7, data: "I say: " });
  server.live({ session_id: "s1", kind: "text", offset: 7, end: 40, data: "<img src=x onerror=alert(1)>" });
  await log.getByText("I say: <img src=x onerror=alert(1)>").waitFor();
  assert.equal(await page.locator("img[src=x]").count(), 0);
});

test("an approval is answered in place", { skip }, async () => {
  await open("Upgrade the linter");
  await page.getByRole("button", { name: "Deny…" }).click();
  await page.getByLabel("Reason").fill("not today");
  await page.keyboard.press("Enter");
  await page.getByText("Not run: not today").waitFor();
  assert.deepEqual(server.posts, [{ path: "/api/v1/sessions/s2/approvals/ask1", body: { allow: false, reason: "not today" } }]);
});

test("what was typed and not sent is there again when one comes back, and goes when it was sent", { skip }, async () => {
  await open("Upgrade the linter");
  const nav = page.getByRole("navigation", { name: "Sessions" });
  const message = page.getByLabel("Message to the agent");
  const reason = page.getByLabel("Reason");
  const answer = page.getByRole("textbox", { name: "Your answer" });
  /** away looks at another session, and at none, and comes back. */
  const away = async () => {
    await nav.getByRole("link", { name: "Find out why CI is slow" }).click();
    await page.getByRole("heading", { name: "Find out why CI is slow" }).waitFor();
    await quickly(page, "g", "h");
    await message.waitFor({ state: "detached" });
    await nav.getByRole("link", { name: "Upgrade the linter" }).click();
    await page.getByRole("heading", { name: "Upgrade the linter" }).waitFor();
  };
  const has = (field, text) => until(async () => (await field.inputValue()) === text, `the field has ${text || "nothing"}`);
  await page.getByRole("button", { name: "Deny…" }).click();
  await reason.fill("not tod");
  server.tell("s2", "UserQuestionRequested", { call_id: "q1", tool: "AskUser", question: { kind: "question", text: "Why?", options: null, reason: "" } });
  await answer.fill("for");
  await message.fill("go");
  await away();
  await has(reason, "not tod");
  await has(answer, "for");
  await has(message, "go");
  assert.equal(await reason.evaluate((e) => document.activeElement === e), false, "what was begun before takes no focus");

  await reason.fill("not today");
  await page.keyboard.press("Enter");
  await page.getByText("Not run: not today").waitFor();
  await answer.press("Enter");
  await page.getByText("You answered: for").waitFor();
  let held;
  await page.route("**/api/v1/sessions/s2/messages", (route) => (held = route));
  await message.press("Control+Enter");
  await until(() => held, "the message is on its way");
  await nav.getByRole("link", { name: "Find out why CI is slow" }).click();
  await page.getByRole("heading", { name: "Find out why CI is slow" }).waitFor();
  await message.fill("another");
  await until(() => page.getByRole("button", { name: "Send" }).isEnabled(), "what is on its way from one session holds up no other");
  await Promise.all([page.waitForResponse("**/api/v1/sessions/s2/messages"), held.continue()]);
  await nav.getByRole("link", { name: "Upgrade the linter" }).click();
  await page.getByRole("article", { name: "You" }).getByText("go", { exact: true }).waitFor();
  await has(message, "");
  await nav.getByRole("link", { name: "Find out why CI is slow" }).click();
  await page.getByRole("heading", { name: "Find out why CI is slow" }).waitFor();
  await has(message, "another");
});

test("a question is answered in place: by an option's key, in words, and by hand", { skip }, async () => {
  await open("Upgrade the linter");
  const ask = (call_id, question) => {
    server.tell("s2", "UserQuestionRequested", { call_id, tool: "AskUser", question });
    server.change("s2", { status: "waiting", waiting: [{ call_id, tool: "AskUser", kind: question.kind, reason: "", text: question.text, options: question.options ?? [] }] });
  };
  const card = (name) => page.getByRole("article", { name });
  ask("q1", { kind: "question", text: "Which colour?", options: ["red", "<b>blue</b>"] });
  const first = card("Question, waiting for you");
  await first.getByRole("button", { name: "red" }).waitFor();
  await page.getByPlaceholder("Answer the agent's question").waitFor();
  assert.deepEqual(await audit(page, "a question"), []);
  await first.getByRole("button", { name: /^Question/ }).focus();
  await page.keyboard.press("2");
  await card("Question, answered").getByText("You answered: <b>blue</b>").waitFor();

  ask("q2", { kind: "question", text: "Why?" });
  await card("Question, waiting for you").getByRole("textbox", { name: "Your answer" }).fill("for me");
  await page.keyboard.press("Enter");
  await card("Question, answered").getByText("You answered: for me").waitFor();
  ask("q3", { kind: "question", text: "When?" });
  await card("Question, waiting for you").getByRole("button", { name: "Decline" }).click();
  await card("Question, declined").getByText("You declined.").waitFor();

  ask("q4", { kind: "hands", text: "Sign in to example.org" });
  const hands = card("Your hands in the browser, waiting for you");
  await hands.getByRole("button", { name: "Open the browser" }).click();
  await page.waitForURL(/#\/s\/s2\/browser/);
  await hands.getByRole("button", { name: "Done" }).click();
  await card("Your hands in the browser, answered").waitFor();
  assert.deepEqual(
    server.posts.filter((p) => p.path.includes("/answers/")).map((p) => [p.path.split("/").at(-1), p.body]),
    [["q1", { text: "<b>blue</b>", declined: false }], ["q2", { text: "for me", declined: false }], ["q3", { text: "", declined: true }], ["q4", { text: "", declined: false }]],
  );
});

test("a subagent's steps are in the card that handed the work over, and what waits there is answered there", { skip }, async () => {
  await open("Make the tests of the parser pass");
  const input = { description: "count the words", prompt: "Count the words of README.md.", subagent_type: "explore" };
  const where = { wall: "docker", sandbox_id: "3f2a", workdir: "/workspace", boot: "b" };
  server.tell("s1", "MessagesAppended", { messages: [{ role: "assistant", blocks: [{ use: { id: "h1", name: "Task", input } }] }], usage: {}, notice: false });
  server.tell("s1", "ToolCallStarted", { call_id: "h1", tool: "Task", input, actor: "agent", where: { wall: "", sandbox_id: "", workdir: "", boot: "" } });
  server.tell("s1", "SubtaskSpawned", { call_id: "h1", task_id: "t1", agent: "explore", description: "count the words" });
  server.tell("s1", "ToolCallStarted", { call_id: "h2", tool: "Grep", input: { pattern: "word" }, actor: "agent", where }, "t1");
  const card = page.getByRole("article", { name: /^Task call/ });
  await card.getByText("Grep word").waitFor();
  server.live({ session_id: "s1", task_id: "t1", kind: "text", offset: 0, end: 6, data: "hidden" });
  server.tell("s1", "ToolResultRecorded", { call_id: "h2", tool: "Grep", status: "ok", text: "", images: null, display: null, files: null, where, duration: 3e6 }, "t1");
  server.tell("s1", "ToolCallApprovalRequested", { call_id: "h3", tool: "Bash", input: { command: "wc -w README.md" }, reason: "Bash can run commands." }, "t1");
  await card.getByRole("article", { name: "Bash call, waiting for you" }).waitFor();
  assert.deepEqual(await audit(page, "a subagent that asks"), []);
  const allow = card.getByRole("article", { name: "Bash call, waiting for you" }).getByRole("button", { name: "Allow once" });
  await Promise.all([page.waitForResponse(/\/approvals\/h3$/), allow.click()]);
  await card.getByText("Count the words of README.md.").waitFor();
  assert.deepEqual(server.posts.at(-1), { path: "/api/v1/sessions/s1/approvals/h3", body: { allow: true, reason: "" } });
  server.tell("s1", "ToolResultRecorded", { call_id: "h3", tool: "Bash", status: "ok", text: "12", images: null, display: null, files: null, where, duration: 3e6 }, "t1");
  server.tell("s1", "TaskCompleted", { text: "There are **12** words." }, "t1");
  server.tell("s1", "SubtaskCompleted", { call_id: "h1", task_id: "t1", status: "ok", text: "There are **12** words.", usage: {}, cost_usd: null });
  server.tell("s1", "ToolResultRecorded", { call_id: "h1", tool: "Task", status: "ok", text: "There are **12** words.", images: null, display: null, files: null, where: null, duration: 9e6 });
  const done = page.getByRole("article", { name: "Task call, ok" });
  await done.getByText("2 calls").first().waitFor();
  if ((await done.getByText("Its answer").count()) === 0) await done.getByRole("button", { name: /explore/ }).first().click();
  await done.locator("strong", { hasText: "12" }).waitFor();
  await page.getByText("hidden").waitFor({ state: "detached" });
  await page.goto(`${server.url}#/s/s1?call=h3`);
  await done.getByRole("article", { name: "Bash call, ok" }).waitFor();
});

test("Esc Esc stops the turn and shows the proof", { skip }, async () => {
  await open("Make the tests of the parser pass");
  await page.getByRole("button", { name: "Stop", exact: true }).waitFor();
  let held;
  await page.route("**/api/v1/sessions/s1/interrupt", (route) => (held = route));
  await quickly(page, "Escape", "Escape");
  await page.getByRole("button", { name: "Stopping…" }).waitFor();
  await until(() => held, "the command is on its way");
  await held.continue();
  await page.locator("main header").getByText("0 processes left, 38 ms").waitFor();
  assert.deepEqual(server.posts.map((p) => p.path), ["/api/v1/sessions/s1/interrupt"]);
});

test("a lost connection says so, and goes on where it was", { skip }, async () => {
  await open("Upgrade the linter");
  await page.getByRole("button", { name: "Deny…" }).waitFor();
  const before = await page.locator("[data-id]").count();
  server.dropAll();
  server.tell("s2", "MessagesAppended", { messages: [{ role: "user", blocks: [{ text: "said meanwhile" }] }], usage: { input: 0, output: 0, cache_read: 0, cache_write: 0 }, notice: false });
  await page.getByText("said meanwhile").waitFor();
  await becomes(() => page.locator("[data-id]").count(), before + 1);
});

test("the container is read again and again, over one connection", { skip }, async () => {
  await open("Make the tests of the parser pass");
  const panel = page.getByRole("tabpanel", { name: "Container" });
  await panel.getByRole("meter", { name: "Memory" }).waitFor();
  await panel.getByText(/^\d\.\d\d of 2 cores/).waitFor(); // two readings
  await page.getByRole("navigation", { name: "Sessions" }).getByRole("link", { name: "Upgrade the linter" }).click();
  await panel.getByText("a81e77c09b12").first().waitFor();
  assert.equal(server.connections, 1);
});

test("a message is sent by Ctrl+Enter", { skip }, async () => {
  await open("Find out why CI is slow");
  await page.getByLabel("Message to the agent").fill("go on");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("article", { name: "You" }).getByText("go on").waitFor();
  await becomes(() => page.getByLabel("Message to the agent").inputValue(), ""); // the answer may come after the message itself
  assert.deepEqual(server.posts[0].body, { text: "go on" });
});

test("a lost sandbox can only be provisioned again", { skip }, async () => {
  await open("Port the scraper");
  await page.locator("main header").getByRole("button", { name: "Re-provision" }).waitFor();
  await until(() => page.getByLabel("Message to the agent").isDisabled(), "no message can be sent");
  await page.locator("main header").getByRole("button", { name: "Re-provision" }).click();
  await until(() => server.posts.length > 0, "the command");
  await page.waitForTimeout(200); // nothing else is asked for
  assert.deepEqual(server.posts.map((p) => p.path), ["/api/v1/sessions/s5/reprovision"]);
});

test("the form shows a fault at its field, and local needs a tick", { skip }, async () => {
  await open();
  await page.getByRole("navigation").getByRole("button", { name: "New session" }).click();
  await page.getByRole("textbox", { name: "Goal" }).fill("it's mine");
  await page.getByRole("button", { name: /mounts and limits/ }).click();
  await page.getByRole("textbox", { name: "Memory" }).fill("1");
  await page.getByRole("button", { name: "Open session" }).click();
  await page.getByText("less than 16m").waitFor();
  assert.equal(await page.getByRole("textbox", { name: "Memory" }).getAttribute("aria-invalid"), "true");
  await page.getByRole("dialog").getByText("No wall", { exact: true }).click();
  await until(() => page.getByRole("button", { name: "Open session" }).isDisabled(), "it cannot be opened yet");
  await page.getByLabel("I understand").check();
  await page.getByText(`glovebox run --wall local --model demo 'it'\\''s mine'`).waitFor();
  await page.getByRole("button", { name: "Open session" }).click();
  await page.getByRole("heading", { name: "it's mine" }).waitFor();
  assert.match(page.url(), /#\/s\/new/);
});

test("a long timeline keeps the page small and can be walked", { skip }, async () => {
  await open("Port the scraper");
  const log = page.getByRole("log", { name: "Timeline" });
  for (let i = 0; i < 900; i++) {
    server.tell("s5", "MessagesAppended", { messages: [{ role: "user", blocks: [{ text: `line ${i}` }] }], usage: { input: 0, output: 0, cache_read: 0, cache_write: 0 }, notice: false });
  }
  await log.getByText("line 899", { exact: true }).waitFor();
  assert.ok((await page.locator("[data-id]").count()) <= 300);
  await until(() => log.evaluate((e) => e.scrollHeight - e.scrollTop - e.clientHeight < 48), "it follows the end");
  await log.evaluate((e) => (e.scrollTop = 0));
  await log.getByText("line 730", { exact: true }).waitFor(); // what is earlier comes by itself
  await log.press("Home");
  await log.getByText("line 0", { exact: true }).waitFor();
  assert.ok((await page.locator("[data-id]").count()) <= 300);
  await page.getByRole("button", { name: /Jump to latest/ }).click();
  await log.getByText("line 899", { exact: true }).waitFor();
  assert.ok((await page.evaluate(() => document.querySelectorAll("*").length)) < 3000);
});
