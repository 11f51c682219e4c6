// One story over the program itself: an agent at work in a sandbox's browser, and a person who takes it for a while.
//   make build && cd frontend && node --test e2e/story.test.mjs
// With STORY_SHOTS=DIR, as make story has it, it leaves pictures of its turns there.
import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { thin } from "./png.mjs";
import { becomes, until } from "./browser.mjs";
import { dataDir, folder, look, serve, setUp, skip, timeline } from "./program.mjs";
import { openSite, PASSWORD, TICKET } from "./site.mjs";

setUp();

const shots = process.env.STORY_SHOTS ?? "";

/** files are all files below a directory, with what is in them. */
function* files(dir) {
  for (const at of readdirSync(dir, { withFileTypes: true })) {
    const path = join(dir, at.name);
    if (at.isDirectory()) yield* files(path);
    else if (at.isFile()) yield [path, readFileSync(path)];
  }
}

/** forms are the ways in which a secret may be written down. */
const forms = (secret) => [Buffer.from(secret), Buffer.from(secret, "utf16le"), Buffer.from(encodeURIComponent(secret)), Buffer.from(Buffer.from(secret).toString("base64").replace(/=+$/, "").slice(0, -1))];

test("an agent buys tickets, a person signs in for it, and what they typed is nowhere", { skip: skip("bwrap"), timeout: 240_000 }, async () => {
  const site = await openSite();
  const data = dataDir();
  const stage = folder("stage");
  const server = await serve(data, { config: site.config, cwd: stage });
  const workspace = folder("ws");
  const act = (name, input, text = "") => ({ text, calls: [{ tool: `browser_${name}`, input }] });
  writeFileSync(join(stage, "ferry.json"), JSON.stringify([
    act("navigate", { url: `${site.url}/` }, "I open the shop."),
    act("type", { selector: "#name", text: "Kim Holm" }, "I fill in the form."),
    act("select", { selector: "#seats", values: ["2"] }),
    act("click", { selector: "#continue" }),
    act("click", { selector: "#choose" }, "The seats are chosen in a window of their own."),
    act("click", { selector: "#row-14" }),
    act("click", { selector: "#reserve" }),
    act("dialog", { accept: true }, "It asks whether to reserve them: yes."),
    act("screenshot", {}),
    act("click", { selector: "#sign-in" }, "Now the tickets."),
    { text: "I wait for a moment.", calls: [{ tool: "Bash", input: { command: "while [ ! -e taken ]; do sleep 0.1; done" } }] },
    act("type", { selector: "#password", text: "guess" }),
    act("ask_person", { reason: "Sign in to Harbour Tickets on the page that is open. I do not know the password." }, "I cannot sign in."),
    act("click", { selector: "#download" }, "Thank you. I fetch the ticket."),
    act("extract", {}, "I look at the page first."),
    act("click", { selector: "#download" }),
    act("downloads", {}),
    { text: "The ticket is here: two seats, 14C and 14D." },
  ]));
  const id = await server.open({
    title: "Tickets for the evening ferry", goal: "Buy two tickets for the evening ferry for Kim Holm.", model: "script:ferry.json", workspace, plugins: ["browser"],
    spec: { wall: "namespace", network: { mode: "proxy" } },
  });
  const page = await look(server, { at: `#/s/${id}/browser`, viewport: { width: 1440, height: 900 } });
  const shoot = async (name) => {
    if (!shots) return;
    mkdirSync(shots, { recursive: true });
    writeFileSync(join(shots, `story-${name}.png`), thin(await page.screenshot({ caret: "hide" })));
  };
  const log = timeline(page);
  const panel = page.locator("#panel-browser");
  const card = (name, state) => log.getByRole("article", { name: `browser_${name} call, ${state}`, exact: true });
  const button = (name) => panel.getByRole("button", { name, exact: true });

  // The agent fills in a form, follows a pop-up, answers a dialog and takes a picture.
  await card("type", "ok").getByText("Type “Kim Holm” into").waitFor({ timeout: 60_000 });
  await card("dialog", "ok").waitFor({ timeout: 60_000 });
  await log.getByText(/opened.*tab|tab.*opened/i).first().waitFor({ state: "attached" });
  const picture = card("screenshot", "ok").getByRole("img");
  await picture.waitFor();
  await until(() => picture.evaluate((i) => i.naturalWidth > 300), "the screenshot is shown");
  await shoot("agent");
  await panel.getByRole("tab", { name: "Sign in" }).waitFor();

  // A person takes control in the middle of it: the agent's next input is refused, and it says so.
  await button("Take control").first().click();
  await panel.getByText("You have control", { exact: true }).waitFor();
  await log.getByText("A person took control of the browser for 5 min").waitFor();
  const taken = new Date();
  writeFileSync(join(workspace, "taken"), "");
  await log.getByText("Not done: a person had control of the browser.").waitFor();
  const question = log.getByRole("article", { name: /^Your hands in the browser/ });
  await question.getByText("Sign in to Harbour Tickets").waitFor();
  await becomes(async () => (await server.show(id)).status, "waiting");
  await shoot("taken");

  // They sign in with their own hands.
  const place = panel.locator(".place");
  const box = await place.boundingBox();
  await page.mouse.click(box.x + box.width / 2, box.y + box.height * 0.6);
  await page.keyboard.type(PASSWORD, { delay: 20 });
  await page.keyboard.press("Enter");
  await panel.getByRole("tab", { name: "Your tickets" }).waitFor();
  assert.deepEqual(site.seen, { signedIn: 1, refused: 0 });

  // The page is there as text too, for who cannot see the picture.
  await panel.getByRole("radio", { name: "Text" }).click();
  const twin = page.getByRole("region", { name: "Page as text" });
  await twin.getByRole("heading", { name: "Your tickets" }).waitFor();
  await twin.getByRole("searchbox", { name: "Search the page's text" }).fill("kim holm");
  await twin.getByText("1 of 1").waitFor();
  await shoot("text");

  const given = new Date(); // what is seen once it is given back is recorded
  await button("Give back").click();
  await log.getByText("Control of the browser went back to the agent").waitFor();
  await question.getByRole("button", { name: "Done" }).click();

  // The agent has to look first, then goes on where the person has left the page.
  await log.getByText("the agent has to look at the page first").waitFor();
  await log.getByText("The ticket is here: two seats, 14C and 14D.").waitFor({ timeout: 60_000 });
  await card("downloads", "ok").getByRole("button").first().click();
  const downloads = log.getByRole("list", { name: "Downloads" }).last();
  await downloads.getByText("ticket.txt").first().waitFor();
  const path = (await downloads.locator("code").first().innerText()).trim();
  const { text } = await server.bash(id, `cat '${path}'`);
  assert.ok(text.includes(TICKET.trim()), `the file is in the sandbox: ${text}`);
  await shoot("done");

  // What was typed is in no event, in no recorded picture's time, and in no file of ours.
  await becomes(async () => (await server.show(id)).status, "idle");
  const { entries } = await server.call("GET", `/sessions/${id}/browser/recording?after=0`);
  assert.ok(entries.some((e) => e.kind === "frame"), "the agent's work was recorded");
  const during = entries.filter((e) => e.kind === "frame" && new Date(e.at) > taken && new Date(e.at) < given);
  assert.deepEqual(during, [], "nothing of the person's was");
  await page.close(); // it asks on and on, and a server that stops breaks that off
  await server.stop();
  const found = [];
  for (const [path, body] of files(data)) if (forms(PASSWORD).some((f) => body.includes(f))) found.push(path);
  assert.deepEqual(found, [], "no file has the password");
  for (const f of forms(PASSWORD)) assert.ok(!server.log().includes(f.toString()), "nor has the log");
});
