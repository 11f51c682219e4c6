// The dock's panels, in a real browser under the content security policy:
//   npm run build && node --test e2e/panels.test.mjs
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { audit, becomes, skip, until } from "./browser.mjs";
import { page, serve, server, show, view } from "./canned.mjs";
import { stamp } from "./clock.mjs";

const fresh = (settings = {}) => view({ viewport: { width: 1280, height: 800 }, ...settings });

beforeEach(async () => {
  if (skip) return;
  await serve();
  await fresh();
});

const shell = () => [...server.place("s1").shells.values()].at(-1);
const screen = () => page.locator(".xterm-rows").last();

async function openTerminal() {
  await show("#/s/s1/terminal");
  await page.getByRole("button", { name: "Open a terminal", exact: true }).click();
  await screen().getByText("kim@sandbox").first().waitFor();
}

/** clean fails for what axe finds serious inside an element. */
async function clean(within) {
  assert.deepEqual(await audit(page, within, { within }), []);
}

test("a terminal takes keys, shows colours, and leaves nothing to hostile output", { skip }, async () => {
  await openTerminal();
  await page.keyboard.type("test\n");
  await screen().getByText("lexer_test.go:31").waitFor();
  await until(() => screen().getByText("lexer_test.go:31").evaluate((e) => getComputedStyle(e).color !== getComputedStyle(document.body).color), "a colour of 24 bits is drawn");
  await becomes(() => screen().evaluate((e) => getComputedStyle(e).whiteSpace), "pre", "the rules of the terminal's style hold");

  await page.evaluate(() => navigator.clipboard.writeText("mine"));
  await page.keyboard.type("evil\n");
  await screen().getByText("bad link").waitFor();
  assert.match(await page.title(), /Glovebox/);
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "mine");
  await screen().getByText("bad link").click({ force: true });
  assert.equal(await page.getByRole("dialog").count(), 0);
});

test("a link is opened after it was looked at", { skip }, async () => {
  await openTerminal();
  await page.keyboard.type("evil\n");
  const link = screen().getByText("good link");
  await link.waitFor();
  const box = await link.boundingBox();
  // What is drawn anew, as the prompt that follows, takes a link from under the pointer until that moves.
  await until(async () => {
    await page.mouse.move(box.x + 4, box.y + 5);
    await page.mouse.move(box.x + 20, box.y + 6);
    return page.locator(".xterm-cursor-pointer").count();
  }, "the link is under the pointer");
  await page.mouse.click(box.x + 20, box.y + 6);
  await page.getByRole("dialog").getByText("http://example.com/").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
});

test("Esc is the shell's, and a key leads out of the terminal", { skip }, async () => {
  await openTerminal();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await until(() => (shell().typed ?? "").split("\x1b").length === 3, "both reach the shell");
  assert.deepEqual(server.posts.filter((p) => p.path.endsWith("/interrupt")), []);
  await page.getByText("leaves the terminal").waitFor();
  await page.keyboard.press("Control+Shift+E");
  await becomes(() => page.evaluate(() => document.activeElement?.getAttribute("role")), "tab");
  await page.keyboard.press("ArrowDown");
  await until(() => page.evaluate(() => document.activeElement?.matches(".xterm-helper-textarea")), "the terminal has the keyboard again");
  await page.keyboard.type("echo back\n");
  await screen().getByText("back", { exact: true }).waitFor();
});

test("a terminal outlives its view, a lost connection and a reload, and shows nothing twice", { skip }, async () => {
  await openTerminal();
  await page.keyboard.type("echo first\n");
  await screen().getByText("first", { exact: true }).waitFor();
  server.dropAll();
  shell().write("meanwhile\r\n");
  await screen().getByText("meanwhile").waitFor();
  await becomes(() => screen().getByText("meanwhile").count(), 1);
  await page.reload();
  await screen().getByText("meanwhile").waitFor();
  await becomes(() => screen().getByText("first", { exact: true }).count(), 1);
});

test("old output asks nothing of the shell when it is shown again", { skip }, async () => {
  await openTerminal();
  await page.keyboard.type("ask\n");
  await until(() => /\x1b\[\?1;2c\x1b\[\d+;\d+R/.test(shell().typed), "questions that are new are answered");
  const answers = shell().typed;
  await page.reload();
  await screen().getByText("ask").waitFor();
  await page.locator(".xterm-helper-textarea").focus();
  await page.keyboard.press("Control+C");
  await page.keyboard.type("echo done\n");
  await screen().getByText("done", { exact: true }).waitFor();
  assert.equal(shell().typed, `${answers}\x03echo done\r`);
});

test("a flood leaves the page alive, is cut short, and ends at its end", { skip }, async () => {
  await openTerminal();
  await page.evaluate(() => {
    window.longest = 0;
    let last = performance.now();
    const beat = () => {
      const now = performance.now();
      window.longest = Math.max(window.longest, now - last);
      last = now;
      setTimeout(beat, 10);
    };
    beat();
  });
  await page.keyboard.type("flood\n");
  await screen().getByText("flood is over").waitFor({ timeout: 60_000 });
  await page.keyboard.type("echo alive\n");
  await screen().getByText("alive", { exact: true }).waitFor();
  const longest = await page.evaluate(() => window.longest);
  assert.ok(longest < 1_500, `the page stood still for ${Math.round(longest)} ms`);
});

test("the size follows the panel", { skip }, async () => {
  await openTerminal();
  await until(() => shell().t.cols !== 80, "the first size");
  const { cols } = shell().t;
  await page.getByRole("separator", { name: "Width of the panels" }).focus();
  for (let i = 0; i < 6; i++) await page.keyboard.press("ArrowLeft");
  await until(() => shell().t.cols > cols + 5, "a wider one");
});

test("copy, paste and search work by keyboard", { skip }, async () => {
  await openTerminal();
  await page.evaluate(() => navigator.clipboard.writeText("echo pa\x1bsted"));
  await page.keyboard.press("Control+Shift+V");
  await page.keyboard.press("Enter");
  await screen().getByText("pasted", { exact: true }).waitFor();
  await page.keyboard.press("Control+Shift+F");
  await page.getByRole("searchbox", { name: "Search the terminal" }).fill("pasted");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+Shift+F");
  await page.getByRole("searchbox", { name: "Search the terminal" }).fill("not there at all");
  await page.getByText("not found").waitFor();
});

test("several terminals: new, too many, close with a question, ended", { skip }, async () => {
  await openTerminal();
  for (let i = 0; i < 3; i++) {
    await page.getByRole("button", { name: "New terminal" }).click();
    await page.getByRole("tab", { name: `bash ${i + 2}` }).waitFor();
  }
  await page.getByRole("button", { name: "New terminal" }).click();
  await page.getByRole("alert").getByText("close one first").waitFor();
  await page.getByRole("button", { name: "Close bash 4" }).click();
  await page.getByRole("button", { name: "Close terminal" }).click();
  await until(() => server.place("s1").shells.size === 3, "it is closed on the server");
  await page.getByRole("tab", { name: "bash 4" }).waitFor({ state: "detached" }); // and another one is shown
  await page.locator(".xterm-helper-textarea:visible").last().focus();
  await page.keyboard.type("exit 3\n");
  await page.getByText("ended with exit code 3").waitFor();
  await page.getByRole("button", { name: "Open a new one" }).click();
  await until(() => server.place("s1").shells.size === 4, "a new one");
});

test("a terminal that opens or closes late takes the keyboard from no one who went on", { skip }, async () => {
  await openTerminal();
  const message = page.getByLabel("Message to the agent");
  for (const [act, shown] of [
    [() => page.getByRole("button", { name: "New terminal" }).click(), "visible"],
    [() => page.getByRole("button", { name: "Close bash 2" }).click().then(() => page.getByRole("button", { name: "Close terminal" }).click()), "detached"],
  ]) {
    let held;
    await page.route(/\/sessions\/s1\/terminals(\/\w+)?$/, (route) => (route.request().method() === "GET" ? route.continue() : (held = route)));
    await act();
    await until(() => held, "the command is on its way");
    await message.fill("");
    await page.keyboard.type("one ");
    await held.continue();
    await page.getByRole("tab", { name: "bash 2" }).waitFor({ state: shown });
    await page.keyboard.type("two");
    assert.equal(await message.inputValue(), "one two");
  }
});

test("where the sandbox is not up, each panel says so and offers what brings it back", { skip }, async () => {
  for (const at of ["terminal", "files", "browser"]) {
    await show(`#/s/s3/${at}`);
    const panel = page.locator(`#panel-${at}`);
    for (const { value, cause, says, act, verb } of [
      { value: "stopped", cause: "out of memory", says: "The sandbox is stopped", act: "Start", verb: "start" },
      { value: "paused", cause: "", says: "The sandbox is paused", act: "Unpause", verb: "unpause" },
      { value: "unreachable", cause: "engine not answering", says: "The sandbox does not answer", act: "Attach", verb: "attach" },
      { value: "lost", cause: "removed", says: "The sandbox is lost", act: "Re-provision", verb: "reprovision" },
    ]) {
      server.change("s3", { sandbox: { value, cause, observed_at: stamp(), source: "engine" } });
      await panel.getByText(says).waitFor();
      await panel.getByRole("button", { name: act, exact: true }).click();
      await until(() => server.posts.at(-1)?.path === `/api/v1/sessions/s3/${verb}`, `${verb} in the panel "${at}"`);
      await panel.getByText(says).waitFor({ state: "detached" });
    }
    server.change("s3", { adopted: true, sandbox: { value: "lost", cause: "removed", observed_at: stamp(), source: "engine" } });
    await panel.getByText("Somebody removed it.").waitFor();
    await panel.getByRole("button", { name: "New session", exact: true }).waitFor();
    server.change("s3", { adopted: false });
  }
});

test("files: the tree by keyboard, a text, and what changes under it", { skip }, async () => {
  await show("#/s/s1/files");
  const tree = page.getByRole("tree");
  await tree.getByRole("treeitem", { name: "cmd", exact: true }).focus();
  await page.keyboard.press("i"); // the name that begins with it
  await page.keyboard.press("ArrowRight");
  await tree.getByRole("treeitem", { name: "lexer", exact: true }).waitFor();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await tree.getByRole("treeitem", { name: /^lexer.go/ }).waitFor();
  await tree.getByRole("treeitem", { name: /^lexer.go/ }).focus();
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  const code = page.getByRole("textbox", { name: "Text of lexer.go" });
  await code.getByText("unicode.IsSpace").waitFor();
  assert.match(page.url(), /files\/\/workspace\/internal\/lexer\/lexer\.go/);
  await until(() => code.getByText("package", { exact: true }).evaluate((e) => getComputedStyle(e).color !== getComputedStyle(e.closest(".cm-content")).color), "colours");

  await until(() => server.place("s1").watched.includes("/workspace/internal/lexer"), "its folder is watched");
  server.put("s1", "/workspace/internal/lexer/lexer.go", "package other\n");
  await code.getByText("other").waitFor();
  await page.getByText(/^Changed at/).waitFor();
  server.put("s1", "/workspace/internal/lexer/lexer.go", null);
  await page.getByText("It was removed").waitFor();
  await page.getByRole("button", { name: "Close the file" }).click();
  server.put("s1", "/workspace/internal/new.go", "x\n");
  await tree.getByRole("treeitem", { name: /^new.go/ }).waitFor();
});

test("files: pictures, bytes, cut ones, refused ones, names that lie", { skip }, async () => {
  await show("#/s/s1/files//workspace/logo.png");
  await page.getByText("10 × 10").waitFor();
  await show("#/s/s1/files//workspace/core");
  const saved = page.waitForEvent("download");
  await page.locator(".notice").getByRole("button", { name: "Download" }).click();
  assert.equal((await saved).suggestedFilename(), "core");
  await show("#/s/s1/files//workspace/build.log");
  await page.getByText(/Only the first .* are shown/).waitFor();
  await show("#/s/s1/files//workspace/gone.txt");
  await page.getByText("It is not there").waitFor();
  await show("#/s/s1/files");
  await page.getByRole("treeitem", { name: "secret", exact: true }).click();
  await page.getByText("permission denied").waitFor();
  await page.getByRole("treeitem", { name: /evil.U\+202E.gnp\.exe/ }).waitFor();
  assert.equal(await page.getByRole("treeitem", { name: ".git", exact: true }).count(), 0);
  await page.getByRole("button", { name: "Show hidden files" }).click();
  await page.getByRole("treeitem", { name: ".git", exact: true }).waitFor();
  await page.getByRole("searchbox", { name: "Filter by name" }).fill("readme");
  await until(async () => (await page.getByRole("treeitem").count()) === 1, "one is left");
});

test("the container's card: only what makes sense can be done, and the rest says why", { skip }, async () => {
  await show("#/s/s1/container");
  const panel = page.locator("#panel-container");
  await panel.getByRole("meter", { name: "Memory" }).waitFor();
  await panel.getByText(/^\d\.\d\d of 2 cores/).waitFor(); // two readings
  await panel.getByRole("button", { name: "Start", exact: true }).focus();
  await page.keyboard.press("Enter");
  await panel.getByText("It is not stopped").waitFor();
  assert.deepEqual(server.posts, []);
  await panel.getByRole("button", { name: "Restart" }).click();
  await until(() => server.posts.some((p) => p.path === "/api/v1/sessions/s1/restart"), "the command");
  await panel.getByText("By hand, without Glovebox").click();
  await panel.getByText("docker exec -it 3f2a9c01d4e7 /bin/sh").waitFor();
  await panel.getByRole("button", { name: "Logs" }).click();
  await page.getByRole("dialog").getByText("glovebox guest 0.1.0 listens").waitFor();
  await page.keyboard.press("Escape");
  await panel.getByRole("button", { name: "Open shell" }).click();
  await screen().getByText("kim@sandbox").first().waitFor();
});

test("the isolation chip asks both sides", { skip }, async () => {
  await show("#/s/s1");
  await page.getByRole("button", { name: /isolated/ }).click();
  const dialog = page.getByRole("dialog");
  await dialog.locator(".sum").filter({ hasText: /^\s*5 of 7 differ\. The kernel is shared by all walls of this machine\.\s+Asked at / }).waitFor();
  await dialog.getByRole("row", { name: /Host name workbench 3f2a9c01d4e7 its own names/ }).waitFor();
  await clean("dialog");
  await page.keyboard.press("Escape");
  await show("#/s/s4");
  await page.getByRole("button", { name: "no wall" }).click();
  await dialog.getByText("Nothing is kept apart").waitFor();
});

for (const colorScheme of ["light", "dark"]) {
  test(`axe finds nothing serious in the ${colorScheme} panels`, { skip }, async () => {
    await fresh({ colorScheme, bypassCSP: true }); // axe itself adds styles
    await show("#/s/s1/container");
    await page.locator("#panel-container").getByRole("meter", { name: "Memory" }).waitFor();
    await page.getByText("By hand, without Glovebox").click();
    await clean("#panel-container");
    await openTerminal();
    await page.keyboard.type("ls\n");
    await clean("#panel-terminal");
    await show("#/s/s1/files");
    await page.getByRole("treeitem", { name: "internal", exact: true }).click();
    await clean("#panel-files");
    await show("#/s/s1/files//workspace/internal/lexer/lexer.go");
    await page.getByRole("textbox", { name: "Text of lexer.go" }).waitFor();
    await clean("#panel-files");
  });
}
