// The screen over the real program, with real sandboxes behind it, when something dies under it:
//   make build && npm run e2e
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { settles, until } from "./browser.mjs";
import { again, bash, current, dataDir, docker, folder, header, look, script, serve, setUp, shows, skip, timeline, walls } from "./program.mjs";

setUp();

for (const { wall, part } of walls) {
  test(`a server killed in the middle of a call behind the ${wall} wall goes on where it was`, { skip: skip(part), timeout: 120_000 }, async () => {
    const data = dataDir();
    let server = await serve(data);
    const page = await look(server);
    const workspace = folder("ws");
    const slow = "echo x >> log; i=0; while [ $i -lt 100 ]; do echo tick $i; i=$((i+1)); sleep 0.1; done; while [ ! -e stop ]; do sleep 0.1; done; echo it arrived";
    const model = script([
      bash("seq 1 300", "I look around."),
      ...Array.from({ length: 12 }, (_, i) => bash(`echo step ${i}`, `Paragraph ${i}.`)),
      bash(slow, "Now something slow."),
      { text: "All done." },
      bash("while true; do echo on and on; sleep 0.2; done", "Another one."),
    ]);
    const id = await server.open({ title: "A real story", goal: "go", model, workspace, spec: { wall } });
    await page.getByRole("navigation", { name: "Sessions" }).getByRole("link", { name: "A real story" }).click();
    const log = timeline(page);
    await log.getByText(/tick 3/).waitFor(); // live, while it runs
    const before = await server.show(id);

    // A person who reads further up stays there.
    await log.getByText("Paragraph 3.").scrollIntoViewIfNeeded();
    await log.hover();
    await page.mouse.wheel(0, -60);
    await page.getByRole("button", { name: "Jump to latest" }).waitFor();
    const place = () => log.getByText("Paragraph 3.").evaluate((e) => Math.round(e.getBoundingClientRect().top));
    const at = await settles(place, "the scrolling settles");

    await server.kill();
    await page.getByText("The server does not answer.").waitFor();
    server = await again(server, data);
    await page.getByText("The server does not answer.").waitFor({ state: "detached" });
    await until(async () => Math.abs((await place()) - at) <= 2, `the place is at ${at} still`);

    writeFileSync(join(workspace, "stop"), "");
    await page.getByRole("button", { name: "Jump to latest" }).click();
    await log.getByText(/it arrived/).first().waitFor();
    await log.getByText("All done.").waitFor();
    const now = await server.show(id);
    assert.equal(now.ref, before.ref, "the same sandbox");
    assert.ok(now.generation > before.generation, "taken up anew");
    assert.equal(readFileSync(join(workspace, "log"), "utf8"), "x\n", "run once");

    await page.getByRole("textbox", { name: "Message to the agent" }).fill("And now?");
    await page.keyboard.press("Control+Enter");
    await log.getByText(/on and on/).first().waitFor();
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await page.getByText(/0 processes left, \d+ ms/).first().waitFor();

    // Opened again, it is all still there.
    await page.reload();
    await timeline(page).getByText("Now something slow.").waitFor();
    await header(page).getByRole("button", { name: "Release", exact: true }).click();
    await shows(page, "released");
  });
}

test("a container removed under a running call is lost, and a new one goes on", { skip: skip("docker"), timeout: 120_000 }, async () => {
  const server = await serve(dataDir());
  const page = await look(server);
  await page.getByRole("button", { name: "Try the demo" }).first().click();
  const id = await current(page);
  const log = timeline(page);
  await log.getByText("working: step 2 of 8").waitFor();
  const { ref, short_id } = await server.show(id);
  await docker("rm", "-f", short_id);
  await shows(page, "lost: removed");
  await log.getByRole("article", { name: "Bash call, sandbox lost" }).waitFor();
  await until(() => page.getByRole("textbox", { name: "Message to the agent" }).isDisabled(), "no message can be sent");
  await page.getByRole("button", { name: /Re-?provision/ }).first().click();
  await shows(page, "ready", 20_000);
  const now = await server.show(id);
  assert.notEqual(now.ref, ref);
  await until(async () => (await docker("ps", "-q", "--filter", `id=${now.short_id}`)) !== "", "the new container runs");
  const { text } = await server.bash(id, "cat glovebox-demo/hello.sh");
  assert.match(text, /you at the window/, "with the files that the workspace had");
});
