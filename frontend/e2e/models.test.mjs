// Whole sessions with models that speak the vendors' wires, driven from the screen.
import assert from "node:assert/strict";
import { test } from "node:test";
import { becomes } from "./browser.mjs";
import { again, current, dataDir, docker, folder, header, look, models, serve, setUp, shows, skip, timeline } from "./program.mjs";

setUp();

const KEY = "sk-of-a-test-and-of-nobody-else";
const LONG = Array.from({ length: 40 }, (_, i) => `Sentence ${i} of an answer that comes in pieces.`).join(" ");
const wires = [
  { wire: "anthropic", status: 529, banner: "The model is overloaded" },
  { wire: "openai", status: 429, banner: "The model's rate limit is reached" },
];

const call = (tool, input) => ({ tool, input });

for (const { wire, status, banner } of wires) {
  test(`a session with a model on the ${wire} wire: calls, streaming, a fault, a missing key`, { skip: skip("docker"), timeout: 120_000 }, async () => {
    const url = await models(wire, {
      key: KEY,
      steps: [
        { text: "I do two things.", calls: [call("Bash", { command: "echo $(hostname) | tee left" }), call("Bash", { command: "echo right > right; echo to st''derr >&2" })] },
        { text: "I read them at once.", calls: [call("Read", { file_path: "left" }), call("Read", { file_path: "right" }), call("Glob", { pattern: "*" })] },
        { fault: { status, headers: { "retry-after": "90" } } },
        { text: LONG, fault: { pause: "40ms" } },
        { text: "And now with a key." },
      ],
    });
    const price = wire === "anthropic" ? "\nprice = { input = 1000, output = 1000, cache_read = 0, cache_write = 0 }" : "";
    const config = `[[models]]\nname = "${wire}:story"\nlabel = "Story"\nbase_url = "${url}"\nkey_env = "STORY_KEY"${price}\n`;
    const data = dataDir();
    let server = await serve(data, { config, env: { STORY_KEY: KEY } });
    const page = await look(server);
    await page.getByRole("button", { name: "New session" }).first().click();
    const dialog = page.getByRole("dialog", { name: "New session" });
    await dialog.getByLabel("Goal").fill("Do two things");
    await dialog.getByRole("textbox", { name: "Workspace" }).fill(folder("ws"));
    await dialog.getByText("Docker container", { exact: true }).click();
    await dialog.getByRole("radio", { name: /^Story/ }).check();
    await dialog.getByRole("button", { name: "Open session" }).click();

    const log = timeline(page);
    const id = await current(page);
    await log.getByText("I do two things.").waitFor();
    await log.getByText("to stderr").first().waitFor();
    await log.getByText("I read them at once.").waitFor();
    for (const [tool, n] of [["Bash", 2], ["Read", 2], ["Glob", 1]]) {
      const cards = log.getByRole("article", { name: `${tool} call, ok` });
      await becomes(() => cards.count(), n);
    }
    const { short_id } = await server.show(id);
    assert.equal(await docker("exec", short_id, "cat", "/workspace/left"), short_id, "it ran in the container, whose host name is its id");

    // The fault is told with a countdown, and one can have it tried at once.
    const waits = page.getByRole("status").filter({ hasText: `${banner}; asked again` });
    await waits.waitFor();
    const left = async () => Number(/asked again in (?:1 m(?:in)? )?(\d+)/.exec(await waits.innerText())?.[1]);
    assert.match(await waits.innerText(), /asked again in .*\(attempt 2 of \d+\)/s);
    const first = await left();
    await page.waitForFunction((was) => !document.body.innerText.includes(was), /asked again in [^(]*/.exec(await waits.innerText())[0]);
    assert.notEqual(await left(), first, "it counts down");
    assert.equal((await server.show(id)).retry.attempt, 1);

    // The answer is read while it comes: its beginning is seen without its end, in one look.
    const coming = page.waitForFunction(() => {
      const said = document.querySelector("[role=log]")?.textContent ?? "";
      return said.includes("Sentence 3 of") && !said.includes("Sentence 39 of");
    });
    await Promise.all([coming, page.getByRole("button", { name: "Try now" }).click()]);
    await waits.waitFor({ state: "detached" });
    await log.getByText(/Sentence 39 of an answer that comes in pieces\./).waitFor();
    await becomes(() => log.getByText(/Sentence 39 of/).count(), 1, "once");
    await header(page).getByText("idle").waitFor();
    const { usage, cost_usd } = await server.show(id);
    assert.equal(usage.input + usage.output + usage.cache_read + usage.cache_write, 540, JSON.stringify(usage));
    await header(page).getByText("540 tokens").waitFor();
    if (wire === "anthropic") await header(page).getByText(`$${cost_usd.toFixed(2)}`).waitFor();
    else assert.equal(cost_usd, null);

    // Without its key the model cannot answer: the turn waits, and says for what.
    await server.stop();
    server = await again(server, data, { config });
    await page.getByText("The server does not answer.").waitFor({ state: "detached" });
    await shows(page, "ready", 20_000);
    await page.getByRole("textbox", { name: "Message to the agent" }).fill("Go on");
    await page.keyboard.press("Control+Enter");
    const failed = page.getByRole("status").filter({ hasText: "The turn failed" });
    await failed.getByText(/STORY_KEY/).waitFor();
    await server.stop();
    server = await again(server, data, { config, env: { STORY_KEY: KEY } });
    await page.getByText("The server does not answer.").waitFor({ state: "detached" });
    await failed.getByRole("button", { name: "Retry" }).click();
    await log.getByText("And now with a key.").waitFor();
    await failed.waitFor({ state: "detached" });
    await header(page).getByText("720 tokens").waitFor();
    assert.ok(!(await page.content()).includes(KEY), "the key is nowhere on the page");
    assert.ok(!JSON.stringify(await server.call("GET", `/sessions/${id}/events`)).includes(KEY), "nor in the log");
  });
}
