/** Binding is one line of the keymap: a chord ("Mod+K") or keys one after the other ("G S"). */
export interface Binding {
  keys: string;
  does: string;
  group: "Anywhere" | "Lists" | "Session" | "Panels" | "Browser" | "Container";
}

/** Keymap is all that keys do. The help and the palette read it too. */
export const KEYMAP = {
  palette: { keys: "Mod+K", does: "Find any action", group: "Anywhere" },
  help: { keys: "?", does: "Show the keys", group: "Anywhere" },
  home: { keys: "G H", does: "Go to the start", group: "Anywhere" },
  engine: { keys: "G C", does: "Go to the containers", group: "Anywhere" },
  create: { keys: "N", does: "Open a new session", group: "Anywhere" },
  list: { keys: "G S", does: "Go to the list of sessions", group: "Lists" },
  search: { keys: "/", does: "Search the sessions, or the containers", group: "Lists" },
  next: { keys: "J", does: "Next one of the list; Enter opens it", group: "Lists" },
  previous: { keys: "K", does: "Previous one of the list", group: "Lists" },
  rename: { keys: "F2", does: "Rename the session", group: "Lists" },
  message: { keys: "I", does: "Write a message", group: "Session" },
  send: { keys: "Mod+Enter", does: "Send the message", group: "Session" },
  stop: { keys: "Esc Esc", does: "Stop the turn; give the browser back", group: "Session" },
  nextCard: { keys: "]", does: "Next card; in the dock, next tab", group: "Session" },
  previousCard: { keys: "[", does: "Previous card; in the dock, previous tab", group: "Session" },
  container: { keys: "V C", does: "Show the container", group: "Panels" },
  browser: { keys: "V B", does: "Show the browser", group: "Panels" },
  terminal: { keys: "V T", does: "Show the terminal", group: "Panels" },
  files: { keys: "V F", does: "Show the files", group: "Panels" },
  network: { keys: "V N", does: "Show the network", group: "Panels" },
  split: { keys: "V S", does: "Show two panels, or one", group: "Panels" },
  hide: { keys: "V X", does: "Close the panels", group: "Panels" },
  take: { keys: "T", does: "Take control", group: "Browser" },
  giveBack: { keys: "B G", does: "Give control back", group: "Browser" },
  extend: { keys: "B E", does: "Keep control longer", group: "Browser" },
  address: { keys: "B A", does: "Go to the address line", group: "Browser" },
  live: { keys: "B L", does: "Show the live picture", group: "Browser" },
  outline: { keys: "B T", does: "Show the page as text", group: "Browser" },
  recording: { keys: "B R", does: "Show the recording", group: "Browser" },
  attach: { keys: "C A", does: "Attach", group: "Container" },
  begin: { keys: "C S", does: "Start, or unpause", group: "Container" },
  halt: { keys: "C H", does: "Stop it", group: "Container" },
  release: { keys: "C R", does: "Release", group: "Container" },
  shell: { keys: "C O", does: "Open a shell", group: "Container" },
  logs: { keys: "C L", does: "Read its log", group: "Container" },
  renew: { keys: "C N", does: "Re-provision: a new one", group: "Container" },
  restart: { keys: "C T", does: "Restart", group: "Container" },
  snapshot: { keys: "C P", does: "Take a snapshot", group: "Container" },
  fork: { keys: "C F", does: "Fork the session", group: "Container" },
} as const satisfies Record<string, Binding>;

export type KeyID = keyof typeof KEYMAP;

/** Pressed is the part of a KeyboardEvent that tells which key it was. */
export type Pressed = Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey">;

/** How long the next key of a sequence is waited for. */
const SEQUENCE_MS = 1_000;
/** Two presses of Esc are meant as one only when they are quick. */
const ESCAPE_MS = 600;

/** keyName writes a pressed key as the keymap does. */
export function keyName(e: Pressed): string {
  const key = e.key === "Escape" ? "Esc" : e.key.length === 1 ? e.key.toUpperCase() : e.key;
  if (e.altKey && /^[a-z0-9]$/i.test(e.key)) return ""; // Alt types other characters on many keyboards
  return e.ctrlKey !== e.metaKey ? `Mod+${key}` : key;
}

/** Sequence follows the pressed keys, and says which line of the keymap they complete. */
export class Sequence {
  private last = "";
  private at = -Infinity;

  constructor(private readonly bindings: Readonly<Record<string, Binding>> = KEYMAP) {}

  /** press returns the id of what was completed, or "". */
  press(name: string, at: number): string {
    const limit = this.last === "Esc" ? ESCAPE_MS : SEQUENCE_MS;
    const both = at - this.at <= limit ? `${this.last} ${name}` : "";
    const found = this.find(both) || this.find(name);
    this.last = found ? "" : name;
    this.at = at;
    return found;
  }

  reset(): void {
    this.last = "";
  }

  private find(keys: string): string {
    if (!keys) return "";
    return Object.keys(this.bindings).find((id) => this.bindings[id]?.keys === keys) ?? "";
  }
}

/** Where a key was pressed: what is typed belongs to the field, and all keys belong to a terminal, or to a page in a person's hands. */
export type Place = "page" | "field" | "terminal";

export function placeOf(target: EventTarget | null): Place {
  if (!(target instanceof Element)) return "page";
  if (target.closest(".xterm, [data-keys=own]")) return "terminal";
  if (target.closest("textarea, select, [contenteditable=true], .cm-editor")) return "field";
  const input = target.closest("input");
  return input && !["checkbox", "radio", "button", "range"].includes(input.type) ? "field" : "page";
}

/** reaches reports whether a key does what the keymap says where it was pressed. */
export function reaches(name: string, place: Place): boolean {
  if (place === "page") return true;
  return place === "field" && (name.startsWith("Mod+") || name === "Esc");
}

/** Keys runs what the open views registered for the keymap. */
export class Keys {
  private readonly runs = new Map<KeyID, (() => void)[]>();
  private readonly sequence = new Sequence();

  /** on gives a key its meaning until what it returns is called. The newest one holds. */
  on(meanings: Partial<Record<KeyID, () => void>>): () => void {
    const all = Object.entries(meanings) as [KeyID, () => void][];
    for (const [id, run] of all) this.runs.set(id, [...(this.runs.get(id) ?? []), run]);
    return () => {
      for (const [id, run] of all) this.runs.set(id, (this.runs.get(id) ?? []).filter((r) => r !== run));
    };
  }

  start(): () => void {
    const heard = (e: KeyboardEvent): void => this.handle(e);
    addEventListener("keydown", heard);
    return () => removeEventListener("keydown", heard);
  }

  /** can reports whether a line of the keymap has a meaning now. */
  can(id: KeyID): boolean {
    return (this.runs.get(id)?.length ?? 0) > 0;
  }

  /** run does what a key would. */
  run(id: KeyID): void {
    this.runs.get(id)?.at(-1)?.();
  }

  private handle(e: KeyboardEvent): void {
    const name = keyName(e);
    // What lies over the page has the keys, and what still comes over it is meant by them already.
    const isOff = e.defaultPrevented || e.repeat || e.isComposing || document.querySelector("dialog[open], [data-awaited]") !== null;
    if (isOff || !name || ["Shift", "Control", "Alt", "Meta", "AltGraph"].includes(e.key)) return;
    if (!reaches(name, placeOf(e.target))) return this.sequence.reset();
    const id = this.sequence.press(name, e.timeStamp) as KeyID; // when it was pressed: a busy page hears of it later
    if (!this.can(id)) return;
    e.preventDefault();
    this.run(id);
  }
}

/** spoken writes keys for this machine's keyboard. */
export function spoken(keys: string, isMac: boolean): string[] {
  return keys.split(/[ +]/).map((k) => (k === "Mod" ? (isMac ? "⌘" : "Ctrl") : k));
}
