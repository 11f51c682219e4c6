// The engine's containers and the decisions about connections, in a real browser against the canned server:
//   npm run build && npm run e2e
import assert from "node:assert/strict";
import { test } from "node:test";
import { audit, becomes, quickly, skip, until } from "./browser.mjs";
import { open, page, server } from "./canned.mjs";

const main = () => page.getByRole("main");
const row = (name) => main().getByRole("listitem").filter({ has: page.getByRole("link", { name, exact: true }) });
const group = (name) => main().getByRole("region", { name });
const posts = (part) => server.posts.filter((p) => p.path.includes(part)).map((p) => p.path.replace("/api/v1", ""));
const copied = () => page.evaluate(() => navigator.clipboard.readText());

test("all containers are there with owner, state and age, and are sifted", { skip }, async () => {
  await open("#/containers");
  await row("shop-db-1").getByText("127.0.0.1:5432->5432/tcp").waitFor();
  await main().getByText("9 containers, 6 running").waitFor();
  await main().getByText("unix:///var/run/docker.sock").waitFor();
  await group("In your sessions").getByRole("link", { name: "Upgrade the linter" }).waitFor();
  await group("Orphans").getByText("glovebox-i1-s9-1").waitFor();
  await group("Of another Glovebox").getByText("glovebox-i7-4b-1").waitFor();
  await row("glovebox-i1-s3-1").locator(".pill").filter({ hasText: /stopped: out of memory\s*\d+ s ago/ }).waitFor();
  await row("profiler").locator(".pill").filter({ hasText: "paused" }).waitFor();

  await main().getByRole("searchbox").fill("linter");
  await row("glovebox-i1-s2-1").waitFor();
  await becomes(() => main().locator("[data-container]").count(), 1);
  await main().getByRole("searchbox").fill("no such thing");
  await main().getByRole("button", { name: "Show all" }).click();
  await main().getByLabel("Whose").selectOption("stranger");
  await becomes(() => main().locator("[data-container]").count(), 4);
  await main().getByLabel("State").selectOption("stopped");
  await row("migrate").waitFor();
  await becomes(() => main().locator("[data-container]").count(), 1);
});

test("a container is attached to, unfolded, and let go of", { skip }, async () => {
  await open("#/containers");
  await row("shop-web-1").getByRole("button", { name: "Attach: shop-web-1" }).click();
  await page.getByRole("heading", { name: "shop-web-1" }).waitFor();
  await page.locator("main header").getByText("found", { exact: true }).waitFor();
  assert.equal(posts("/attach").length, 1);

  await page.getByRole("navigation", { name: "Sessions" }).getByRole("link", { name: "Containers" }).click();
  const web = group("In your sessions").getByRole("listitem").filter({ hasText: "registry.example.com/shop/storefront" });
  await web.getByRole("link", { name: "shop-web-1" }).last().waitFor();
  await web.locator("[data-container]").click();
  await page.waitForURL(/#\/containers\/[0-9a-f]{12}$/);
  await web.getByText("0.0.0.0:8080->80/tcp").waitFor();
  await web.getByRole("meter", { name: "Memory" }).waitFor();
  await web.getByText("By hand, without Glovebox").click();
  await web.getByRole("button", { name: "Copy the command: A shell in it" }).click();
  await until(async () => (await copied()).startsWith("docker exec -it "), "the command is copied");
  await web.getByRole("button", { name: "Release", exact: true }).click();
  await group("Not ours").getByText("shop-web-1", { exact: true }).waitFor();
  assert.deepEqual(server.posts.filter((p) => p.path.endsWith("/release")).map((p) => p.body), [{ how: "remove" }]);
});

test("a container that was kept is taken up again by its session", { skip }, async () => {
  await open("#/containers");
  await row("glovebox-i1-s1-1").getByText("by the proxy").waitFor();
  await row("glovebox-i1-s2-1").getByText("no network").waitFor();
  await row("glovebox-i1-s2-1").getByRole("button", { name: /^More/ }).click();
  await page.getByRole("menuitem", { name: /Release and keep/ }).click();
  await row("glovebox-i1-s2-1").getByRole("button", { name: /^Remove/ }).waitFor();
  await row("glovebox-i1-s2-1").getByRole("button", { name: /^Attach/ }).click();
  await page.getByRole("heading", { name: "Upgrade the linter" }).waitFor();
  assert.deepEqual(posts("/attach"), ["/sessions/s2/attach"]);
});

test("what is ours is started, stopped, kept or removed; what is another's is only read", { skip }, async () => {
  await open("#/containers");
  await row("glovebox-i1-s3-1").getByRole("button", { name: /^Start/ }).click();
  await row("glovebox-i1-s3-1").getByText("running", { exact: true }).waitFor();
  await row("glovebox-i1-s3-1").getByRole("button", { name: /^More/ }).click();
  await page.getByRole("menuitem", { name: /Stop/ }).first().click();
  await row("glovebox-i1-s3-1").getByText("stopped: by hand").waitFor();
  await row("glovebox-i1-s2-1").getByRole("button", { name: /^More/ }).click();
  await page.getByRole("menuitem", { name: /Release and keep/ }).click();
  const keptRow = group("In your sessions").getByRole("listitem").filter({ hasText: "glovebox-i1-s2-1" });
  await keptRow.getByText("kept, let go").waitFor();
  await keptRow.getByRole("link", { name: "Upgrade the linter" }).waitFor();
  await row("glovebox-i1-s9-1").getByRole("button", { name: /^Remove/ }).click();
  await row("glovebox-i1-s9-1").waitFor({ state: "detached" });

  const other = row("glovebox-i7-4b-1");
  assert.equal(await other.getByRole("button", { name: /^(Attach|Stop|Release)/ }).count(), 0);
  await other.locator("[data-container]").click();
  await other.getByRole("button", { name: "Stop", exact: true }).click({ force: true }); // one that says why not
  await page.getByText("It belongs to another Glovebox on this engine").first().waitFor();
  await other.getByRole("button", { name: "Logs", exact: true }).click();
  await page.getByRole("dialog").getByText("GET / 200").waitFor();
  assert.deepEqual(posts("i7"), []);
});

test("the keyboard and the palette do all that the buttons do", { skip }, async () => {
  await open("#/s/s1");
  await page.getByRole("log").waitFor();
  await quickly(page, "g", "c");
  await row("shop-db-1").waitFor();
  await page.keyboard.press("j");
  await page.waitForFunction(() => document.activeElement?.hasAttribute("data-container"));
  for (let i = 0; i < 10; i++) {
    if (await row("profiler").locator("[data-container]").evaluate((e) => e === document.activeElement)) break;
    const before = await page.evaluateHandle(() => document.activeElement);
    await page.keyboard.press("j");
    await page.waitForFunction((e) => e !== document.activeElement, before);
  }
  await quickly(page, "c", "s");
  await row("profiler").getByText("running", { exact: true }).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Find an action or a session" }).fill("logs: profiler");
  await page.getByRole("option", { name: /Logs: profiler/ }).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByText("profiler listens on port 80").waitFor();
  await page.keyboard.press("Escape");
  await quickly(page, "c", "h");
  await row("profiler").getByText("stopped: by hand").waitFor();
  await quickly(page, "c", "a");
  await page.getByText("It must run: it is stopped").first().waitFor();
});

test("a shell in a stranger's container: a session is attached, and a terminal opens in it", { skip }, async () => {
  await open("#/containers");
  await row("shop-db-1").getByRole("button", { name: /^More/ }).click();
  await page.getByRole("menuitem", { name: /Open shell/ }).click();
  await page.locator(".xterm-rows").last().getByText("kim@sandbox").first().waitFor();
  await page.getByRole("heading", { name: "shop-db-1" }).waitFor();
});

test("a sandbox somewhere else is attached by its URL, and a wrong one is said at the field", { skip }, async () => {
  await open("#/containers");
  const url = main().getByLabel("Attach by URL");
  await url.fill("box.example");
  await page.keyboard.press("Enter");
  await main().getByText("It begins with http:// or https://.").waitFor();
  await url.fill("http://silent.example");
  await page.keyboard.press("Enter");
  await main().getByText("http://silent.example does not answer").waitFor();
  await main().getByRole("checkbox", { name: "Give the agent the browser" }).check();
  await url.fill("http://10.0.0.7:8080");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "10.0.0.7:8080" }).waitFor();
  await page.locator("main header").getByText("shared").waitFor();
  const { spec, plugins } = server.posts.at(-1).body;
  assert.deepEqual({ spec, plugins }, { spec: { wall: "remote", base_url: "http://10.0.0.7:8080", network: {} }, plugins: ["browser"] });
});

test("an engine that does not answer is told with its age and why, and the list stays", { skip }, async () => {
  await open("#/containers");
  await row("shop-db-1").waitFor();
  server.engine.error = "dial unix /var/run/docker.sock: connect: no such file or directory";
  server.engine.tell();
  await main().getByRole("alert").getByText(/The engine does not answer: what you see is \d+ s old/).waitFor();
  await main().getByRole("alert").getByText("no such file or directory").waitFor();
  await becomes(() => row("shop-db-1").getByRole("button", { name: /^Attach/ }).getAttribute("aria-disabled"), "true");
  await row("shop-db-1").locator(".pill.dim").waitFor({ timeout: 20_000 });
  server.engine.error = "";
  await main().getByRole("button", { name: "Ask again" }).click();
  await main().getByRole("alert").waitFor({ state: "detached" });
});

test("a lost connection takes the watch up again", { skip }, async () => {
  await open("#/containers");
  await row("shop-db-1").waitFor();
  server.dropAll();
  server.engine.list = server.engine.list.filter((c) => c.name !== "shop-db-1");
  await row("shop-db-1").waitFor({ state: "detached" });
  await page.getByRole("navigation", { name: "Sessions" }).getByRole("link", { name: "Glovebox" }).click();
  await page.getByRole("heading", { name: "Recent sessions" }).waitFor();
  await until(() => server.engine.watchers.size === 0, "nobody watches once the page was left");
});

test("an engine without containers, and one that never answered", { skip }, async () => {
  await open("#/containers", { empty: true });
  await main().getByText("The engine has no containers").waitFor();
  server.engine.error = "nothing listens";
  server.engine.tell();
  await main().getByText("nothing listens").waitFor();
});

test("each decision about a connection is a row, live, and a refused one has its flag", { skip }, async () => {
  await open("#/s/s1/network");
  const panel = page.getByRole("tabpanel", { name: "Network" });
  const hosts = panel.getByRole("listitem");
  await hosts.filter({ hasText: "registry.npmjs.org:443" }).getByText("41 times").waitFor();
  await panel.getByText("Let through besides:").getByText("registry.lan:5000").waitFor();
  await page.getByRole("tab", { name: /Network 3 refused/ }).waitFor();
  await panel.getByRole("radio", { name: "Refused 3" }).click();
  await becomes(() => hosts.count(), 3);
  await hosts.filter({ hasText: "db.lan:5432" }).getByRole("button", { name: /^Copy the flag/ }).click();
  await becomes(copied, "--allow db.lan:5432");
  assert.equal(await hosts.filter({ hasText: "Glovebox itself" }).getByRole("button").count(), 0, "no flag opens it");

  server.tell("s1", "EgressDecided", {
    protocol: "connect", host: "10.9.9.9", port: 22, address: "10.9.9.9", allowed: false, reason: "a private address", count: 2, failed: 0, error: "", sent: 0, received: 0, longest: 0, first: new Date().toISOString(),
  });
  await hosts.first().getByText("10.9.9.9:22", { exact: true }).waitFor();
  await hosts.first().getByText("2 times").waitFor();
  await page.getByRole("tab", { name: /Network 4 refused/ }).waitFor();
  await panel.getByRole("searchbox").fill("metadata");
  await becomes(() => hosts.count(), 1);
});

for (const { id, network, says } of [
  { id: "s2", network: "none", says: "There is no way out" },
  { id: "s5", network: "open", says: "Nothing is recorded here" },
  { id: "s4", network: "local", says: "This machine's own network" },
]) {
  test(`the panel says in plain words what ${network} is`, { skip }, async () => {
    await open(`#/s/${id}/network`);
    await page.getByRole("tabpanel", { name: "Network" }).getByText(says).waitFor();
  });
}

test("a window of its own shows the decisions too", { skip }, async () => {
  await open("#/p/s1/network");
  await page.getByRole("listitem").filter({ hasText: "db.lan:5432" }).waitFor();
});

for (const theme of ["light", "dark"]) {
  for (const width of [360, 1200]) {
    test(`axe finds nothing in these views, ${theme}, ${width} pixels wide`, { skip }, async () => {
      await open("#/containers", {}, { colorScheme: theme, viewport: { width, height: 800 } });
      await row("shop-db-1").waitFor();
      assert.ok(await page.evaluate(() => document.scrollingElement.scrollWidth <= innerWidth), "nothing is wider than the window");
      const found = await audit(page, "containers", { within: "main" });
      await row("shop-db-1").locator("[data-container]").click();
      await main().getByText("Its use is read by a guest").waitFor();
      found.push(...(await audit(page, "unfolded", { within: "main" })));
      server.engine.error = "no answer";
      server.engine.tell();
      await main().getByRole("alert").waitFor();
      found.push(...(await audit(page, "away", { within: "main" })));
      await page.goto(`${server.url}#/s/s1/network`);
      await page.getByRole("tabpanel", { name: "Network" }).getByText("db.lan:5432").first().waitFor();
      found.push(...(await audit(page, "network", { within: ".dock" })));
      assert.deepEqual(found, []);
    });
  }
}
