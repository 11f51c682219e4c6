import type { Session } from "../api/types.gen";
import type { App } from "../state/app.svelte";
import { KEYMAP, type KeyID } from "../state/keys.svelte";
import { href, PANELS, type Panel } from "../state/route.svelte";
import { count } from "../text/format";
import { oneLine, titleOf } from "../text/visible";
import type { IconName } from "../ui/icons";

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
  terminal: { label: "Terminal", icon: "terminal" },
  files: { label: "Files", icon: "folder" },
};

export function isActive(s: Session): boolean {
  return s.status === "running" || s.status === "waiting";
}

/** verbs are the commands that a session's sandbox can take as it is. The first one is what it needs most. */
export function verbs(app: App, s: Session): Action[] {
  const value = s.sandbox?.value ?? "";
  const isOver = s.status === "ended"; // what is left of its sandbox can only be let go
  const list: Action[] = [];
  const command = (verb: "attach" | "start" | "stop" | "restart" | "reprovision") => () => void app.command(s.id, verb);
  if (!isOver) {
    if (["lost", "released", "failed", "detached"].includes(value)) {
      list.push({ id: "reprovision", icon: "refresh", label: "Re-provision", hint: "A new sandbox on the same workspace", run: command("reprovision") });
    }
    if (value === "stopped") list.push({ id: "start", icon: "play", label: "Start", hint: "With the files it had", run: command("start") });
    if (["paused", "unreachable"].includes(value)) {
      list.push({ id: "attach", icon: "plug", label: "Attach", hint: "Connects to the sandbox again", run: command("attach") });
    }
  }
  return list;
}

/** releases are the ways to let go of a sandbox. */
export function releases(app: App, s: Session): Action[] {
  if (!["ready", "stopped", "paused", "unreachable"].includes(s.sandbox?.value ?? "")) return [];
  return [
    { id: "release", icon: "eject", label: "Release", hint: "Removes the container; the workspace stays", run: () => void app.release(s.id, "remove") },
    { id: "release-keep", icon: "link", label: "Release and keep", hint: "The container stays as it is; we let go of it", run: () => void app.release(s.id, "keep") },
    { id: "release-stop", icon: "pause", label: "Release and stop", hint: "The container stays, stopped", run: () => void app.release(s.id, "stop") },
  ];
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
const keyed: Partial<Record<KeyID, IconName>> = { list: "menu", search: "search", message: "pencil", split: "split", hide: "panel" };

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
    list.push(...verbs(app, s));
    if (s.sandbox?.value === "ready") {
      list.push(
        { id: "stop-container", icon: "stop", label: "Stop the container", hint: "Start brings it back with its files", run: () => void app.command(s.id, "stop") },
        { id: "restart", icon: "refresh", label: "Restart the container", run: () => void app.command(s.id, "restart") },
      );
    }
    list.push(...releases(app, s), ...care(app, s, "header"));
    if (s.short_id) list.push({ id: "copy-id", icon: "copy", label: "Copy the container's id", hint: s.short_id, run: () => void navigator.clipboard.writeText(s.short_id) });
  }
  list.push(
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
