import type { EngineContainer, Session, State } from "../api/types.gen";
import { actsOf } from "../panels/acts";
import type { App } from "../state/app.svelte";
import { offersOf, ownerOf, releaseText } from "../state/engine";
import { KEYMAP, type KeyID } from "../state/keys.svelte";
import { href, PANELS, type Panel } from "../state/route.svelte";
import { terminalsOf } from "../state/terminals.svelte";
import { count } from "../text/format";
import { oneLine, titleOf } from "../text/visible";
import type { IconName } from "../ui/icons";
import { isGoneForGood } from "./words";

/** Action is one thing that a person can do now. Menus, the header and the palette show the same ones. */
export interface Action {
  id: string;
  label: string;
  hint?: string;
  icon: IconName;
  key?: KeyID;
  danger?: boolean;
  run: () => void;
}

export const panelLooks: Record<Panel, { label: string; icon: IconName }> = {
  container: { label: "Container", icon: "box" },
  browser: { label: "Browser", icon: "browser" },
  terminal: { label: "Terminal", icon: "terminal" },
  files: { label: "Files", icon: "folder" },
  network: { label: "Network", icon: "globe" },
};

export function isActive(s: Session): boolean {
  return s.status === "running" || s.status === "waiting";
}

/** Act is an action of a sandbox or a container, and why it cannot be done now: "" when it can. */
export interface Act extends Action {
  why: string;
}

/** sandboxActs are all that can be done with a session's sandbox, in the state that is known of it. */
export function sandboxActs(app: App, s: Session): Act[] {
  const state = s.sandbox?.value;
  const why = actsOf(s, state);
  const command = (verb: "attach" | "stop" | "restart" | "reprovision") => () => void app.command(s.id, verb);
  const list: Act[] = [
    { id: "shell", icon: "terminal", label: "Open shell", key: "shell", why: why.shell, run: () => void openShell(app, s.id) },
    { id: "attach", icon: "plug", label: "Attach", key: "attach", hint: "Connects to the sandbox again", why: why.attach, run: command("attach") },
    state === "paused"
      ? { id: "unpause", icon: "play", label: "Unpause", key: "begin", hint: "Its processes go on where they were", why: why.unpause, run: () => void app.begin(s, "unpause") }
      : { id: "start", icon: "play", label: "Start", key: "begin", hint: "With the files it had", why: why.start, run: () => void app.begin(s, "start") },
    { id: "stop-container", icon: "stop", label: "Stop container", key: "halt", hint: "Start brings it back with its files", why: why.stop, run: command("stop") },
    { id: "restart", icon: "refresh", label: "Restart", key: "restart", hint: "The same container, with its files", why: why.restart, run: command("restart") },
    { id: "reprovision", icon: "sparkle", label: "Re-provision", key: "renew", hint: s.adopted ? "A new guest in the same container" : "A new sandbox on the same workspace", why: why.reprovision, run: command("reprovision") },
    { id: "snapshot", icon: "camera", label: "Snapshot…", key: "snapshot", hint: "Keeps its files as an image", why: why.snapshot, run: () => (app.sheet = { show: "snapshot", id: s.id }) },
    { id: "fork", icon: "fork", label: "Fork…", key: "fork", hint: "A second session that goes on from here", why: why.fork, run: () => (app.sheet = { show: "fork", id: s.id }) },
    { id: "logs", icon: "log", label: "Logs", key: "logs", hint: "What its own process wrote", why: why.logs, run: () => readLogs(app, s) },
    { id: "release", icon: "eject", label: "Release", key: "release", hint: releaseHint(s), why: why.release, run: () => void app.release(s.id, "remove") },
  ];
  if (!isGoneForGood(s, s.sandbox)) return list;
  return list.map((a) => (a.id === "reprovision" ? { id: "another", icon: "plus", label: "New session", key: "renew", hint: "In another place: this one's container is gone", why: "", run: () => app.router.create() } : a));
}

/** What a sandbox needs most, by its state; the header shows it. */
const NEEDED: Partial<Record<State, string>> = {
  lost: "reprovision", released: "reprovision", failed: "reprovision", stopped: "start", paused: "unpause", unreachable: "attach", detached: "attach",
};

/** needed is the one action that brings a sandbox back, where it has to be. */
export function needed(app: App, s: Session): Act | undefined {
  const id = isGoneForGood(s, s.sandbox) ? "another" : s.sandbox ? NEEDED[s.sandbox.value] : undefined;
  return sandboxActs(app, s).find((a) => a.id === id && a.why === "");
}

/** openShell opens a terminal in a session's sandbox and shows it. */
export async function openShell(app: App, id: string): Promise<void> {
  await terminalsOf(app.client, id).open(80, 24);
  if (app.router.id === id) app.router.show("terminal");
  else app.router.go({ at: "session", id, panel: "terminal" });
}

function readLogs(app: App, s: Session): void {
  app.sheet = { show: "logs", title: "What the sandbox's own process wrote", read: (tail) => app.client.logs(s.id, tail) };
}

function releaseHint(s: Session): string {
  if (s.wall === "remote") return "We let go of it; the other side stays as it is";
  if (s.adopted) return "Our guest goes; what was changed in the container stays";
  return "Removes the container; the workspace stays";
}

/** releases are the ways to let go of a sandbox. */
export function releases(app: App, s: Session): Action[] {
  const first = sandboxActs(app, s).find((a) => a.id === "release" && a.why === "");
  if (!first) return [];
  if (s.wall === "remote" || s.adopted) return [first];
  return [
    first,
    { id: "release-keep", icon: "link", label: "Release and keep", hint: "The container stays as it is; we let go of it", run: () => void app.release(s.id, "keep") },
    { id: "release-stop", icon: "pause", label: "Release and stop", hint: "The container stays, stopped", run: () => void app.release(s.id, "stop") },
  ];
}

/** containerActs are all that can be done with a container of the engine. */
export function containerActs(app: App, c: EngineContainer): Act[] {
  const why = offersOf(c);
  const own = app.sessions?.find((s) => s.id === c.session_id);
  const isOrphan = ownerOf(c) === "orphan";
  const users = c.sessions ?? [];
  const takeUp = (): Promise<boolean> => app.containers.during(c.id, "attaching", () => app.command(c.session_id, "attach"));
  /** join returns the session that is in it from now on: the one that kept it, or another; "" for none. */
  const join = async (): Promise<string> => (c.kept ? ((await takeUp()) ? c.session_id : "") : app.attachTo(c));
  const attach = async (): Promise<void> => {
    const id = await join();
    if (id) app.router.go(app.place(id));
  };
  const shell = async (): Promise<void> => {
    const id = (!c.kept && (c.session_id || users[0])) || (await join());
    if (!id) return;
    app.router.go({ at: "session", id, panel: "terminal" });
    if (await app.settled(id)) await openShell(app, id);
  };
  return [
    {
      id: "attach",
      icon: "plug",
      label: !c.kept && users.length > 0 ? "Attach another session" : "Attach",
      key: "attach",
      hint: c.kept ? "Its session takes it up again" : "Opens a session in it; a release takes the guest out, and what was changed stays",
      why: why.attach,
      run: () => void attach(),
    },
    c.condition.value === "paused"
      ? { id: "unpause", icon: "play", label: "Unpause", key: "begin", why: why.unpause, run: () => void app.startContainer(c) }
      : { id: "start", icon: "play", label: "Start", key: "begin", why: why.start, run: () => void app.startContainer(c) },
    { id: "shell", icon: "terminal", label: "Open shell", key: "shell", hint: own || users.length > 0 ? undefined : "Attaches a session first", why: why.shell, run: () => void shell() },
    { id: "logs", icon: "log", label: "Logs", key: "logs", why: why.logs, run: () => (app.sheet = { show: "logs", title: `What ${oneLine(c.name)} wrote`, read: (tail) => app.client.containerLogs(c.id, tail) }) },
    { id: "stop", icon: "stop", label: "Stop", key: "halt", hint: own ? "Its files are kept" : undefined, why: why.stop, run: () => void app.stopContainer(c) },
    { id: "release", icon: "eject", label: isOrphan || c.kept ? "Remove" : "Release", key: "release", hint: releaseText(c), why: why.release, run: () => void app.releaseContainer(c, "remove") },
  ];
}

/** containerReleases are the ways to let go of a container besides the first one. */
export function containerReleases(app: App, c: EngineContainer): Action[] {
  if (offersOf(c).release !== "" || !c.session_id || c.kept) return [];
  return [
    { id: "release-keep", icon: "link", label: "Release and keep", hint: "It stays as it is; we let go of it", run: () => void app.releaseContainer(c, "keep") },
    { id: "release-stop", icon: "pause", label: "Release and stop", hint: "It stays, stopped", run: () => void app.releaseContainer(c, "stop") },
  ];
}

/** onKeys gives the keys of the group "Container" their meaning; what cannot be done now says why. */
export function onKeys(app: App, acts: () => Act[]): Partial<Record<KeyID, () => void>> {
  const ids = (Object.keys(KEYMAP) as KeyID[]).filter((id) => KEYMAP[id].group === "Container");
  return Object.fromEntries(
    ids.map((id) => [
      id,
      () => {
        const act = acts().find((a) => a.key === id);
        if (act?.why === "") act.run();
        else if (act) app.toasts.show(act.label, `${act.why}.`);
      },
    ]),
  );
}

/** care is what can be done about the session itself, in its row and in its header. */
export function care(app: App, s: Session, at: "list" | "header"): Action[] {
  const list: Action[] = [
    { id: "rename", icon: "pencil", label: "Rename", key: "rename", run: () => (app.renaming = { id: s.id, at }) },
    s.archived
      ? { id: "unarchive", icon: "unarchive", label: "Bring back", hint: "Out of the archive", run: () => void app.archive(s.id, false) }
      : { id: "archive", icon: "archive", label: "Archive", hint: "Puts it away; nothing is removed", run: () => void app.archive(s.id, true) },
    { id: "copy-link", icon: "link", label: "Copy the link", run: () => void navigator.clipboard.writeText(linkTo(s.id)) },
  ];
  if (s.status !== "ended") {
    list.push({ id: "close", icon: "x", label: "Close session…", hint: "Ends it for good and removes its sandbox", danger: true, run: () => askToClose(app, s) });
  }
  return list;
}

function linkTo(id: string): string {
  return location.href.replace(/#.*$/, "") + href({ at: "session", id });
}

function askToClose(app: App, s: Session): void {
  const facts = [];
  const isThere = s.short_id && !["released", "detached", "lost"].includes(s.sandbox?.value ?? "");
  if (isActive(s)) facts.push({ label: "Stopped", text: "the running turn and all its processes" });
  if (isThere) facts.push({ label: "Removed", text: `container ${s.short_id} with all that is in it outside the workspace` });
  facts.push({ label: "Kept", text: `the workspace ${oneLine(s.workspace)} and the timeline` });
  app.ask({
    title: `Close “${titleOf(s)}”?`,
    text: "The session ends for good: no more messages can be sent to it.",
    facts,
    verb: "Close session",
    run: () => void app.command(s.id, "close"),
  });
}

/** askToStopAll asks before the turns of all sessions are stopped. */
export function askToStopAll(app: App): void {
  const running = (app.sessions ?? []).filter(isActive);
  app.ask({
    title: `Stop ${count(running.length, "session")}?`,
    text: "The running turns end and their processes are killed. The sandboxes and their files stay.",
    facts: running.slice(0, 8).map((s) => ({ label: s.status === "running" ? "Running" : "Waiting", text: titleOf(s) })),
    verb: "Stop all",
    run: () => void app.stopAll(),
  });
}

/** popOut opens a panel in a window of its own, which gets the token of this one. */
export function popOut(id: string, panel: Panel, path?: string): void {
  window.open(href({ at: "panel", id, panel, path }), `glovebox.${id}.${panel}`, "popup,width=880,height=600");
}

/** What only the keymap has, where the open views give it a meaning. */
const keyed: Partial<Record<KeyID, IconName>> = {
  list: "menu", search: "search", message: "pencil", split: "split", hide: "panel",
  take: "hand", giveBack: "check", extend: "clock", address: "search", live: "eye", outline: "log", recording: "film",
};

/** actions are all that can be done now, for the palette. */
export function actions(app: App): Action[] {
  const list: Action[] = [];
  const s = app.selected;
  if (s) {
    for (const panel of PANELS) {
      const { label, icon } = panelLooks[panel];
      list.push({ id: panel, icon, label: `Show the ${label.toLowerCase()}`, key: panel, run: () => app.router.show(panel) });
      if (!app.about?.window) list.push({ id: `pop-${panel}`, icon: "popout", label: `Open the ${label.toLowerCase()} in its own window`, run: () => popOut(s.id, panel) });
    }
    if (isActive(s)) list.push({ id: "stop", icon: "stop", label: "Stop the turn", key: "stop", run: () => void app.interrupt(s.id) });
    if (s.retry || s.suspended === "turn_failed") {
      list.push({ id: "retry", icon: "refresh", label: "Ask the model again now", run: () => void app.command(s.id, "retry") });
    }
    list.push(...sandboxActs(app, s).filter((a) => a.why === "" && a.id !== "release" && a.id !== "another"), ...releases(app, s), ...care(app, s, "header"));
    if (s.short_id) list.push({ id: "copy-id", icon: "copy", label: "Copy the container's id", hint: s.short_id, run: () => void navigator.clipboard.writeText(s.short_id) });
  }
  const hand = app.router.route.at === "containers" ? app.containers.hand : null;
  if (hand) {
    const name = oneLine(hand.name);
    for (const a of [...containerActs(app, hand).filter((a) => a.why === ""), ...containerReleases(app, hand)]) {
      list.push({ ...a, id: `container-${a.id}`, label: `${a.label}: ${name}` });
    }
    list.push({ id: "container-copy-id", icon: "copy", label: `Copy the id: ${name}`, hint: hand.short_id, run: () => void navigator.clipboard.writeText(hand.id) });
  }
  list.push(
    { id: "engine", icon: "engine", label: "Show the containers of the engine", hint: "Attach to any of them", key: "engine", run: () => app.router.go({ at: "containers" }) },
    { id: "create", icon: "plus", label: "New session", key: "create", run: () => app.router.create() },
    { id: "demo", icon: "sparkle", label: "Try the demo", run: () => void app.openDemo() },
    { id: "doctor", icon: "shield", label: "Show the checks of this machine", run: () => app.router.go({ at: "doctor" }) },
    { id: "home", icon: "host", label: "Go to the start", key: "home", run: () => app.router.go({ at: "home" }) },
  );
  if ((app.sessions ?? []).some(isActive)) {
    list.push({ id: "stop-all", icon: "stop", label: "Stop all sessions…", danger: true, run: () => askToStopAll(app) });
  }
  for (const [id, icon] of Object.entries(keyed) as [KeyID, IconName][]) {
    if (app.keys.can(id)) list.push({ id: `key-${id}`, icon, label: KEYMAP[id].does, key: id, run: () => app.keys.run(id) });
  }
  list.push(
    { id: "examine", icon: "check", label: "Run the checks again", run: () => void app.examine() },
    { id: "theme-system", icon: "system", label: "Theme: as the system", run: () => app.prefs.setTheme("system") },
    { id: "theme-light", icon: "sun", label: "Theme: light", run: () => app.prefs.setTheme("light") },
    { id: "theme-dark", icon: "moon", label: "Theme: dark", run: () => app.prefs.setTheme("dark") },
    app.prefs.notify
      ? { id: "notify", icon: "bellOff", label: "Do not notify me", run: () => void app.setNotify(false) }
      : { id: "notify", icon: "bell", label: "Notify me of what waits", run: () => void app.setNotify(true) },
    { id: "help", icon: "keyboard", label: "Show the keys", key: "help", run: () => (app.overlay = "help") },
  );
  return list;
}
