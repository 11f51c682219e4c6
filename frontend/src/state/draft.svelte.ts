import type { About, OpenRequest, Wall } from "../api/types.gen";
import { ApiError, messageOf } from "../api/client";
import { agentOf, blank, changesOf, commandOf, fieldOf, isOurs, lacking, requestOf, wallOf, type Fault, type Form, type Row } from "./request";

const DRAFT = "glovebox.draft";
const CHOICES = "glovebox.choices";

type Shelf = Pick<Storage, "getItem" | "setItem" | "removeItem">;

/** Draft is a session that is not opened yet. It outlives its dialog and the page, until it is opened or cleared. */
export class Draft {
  form = $state<Form>(blank());
  /** understood is the tick beside "no isolation"; it is given anew each time. */
  understood = $state(false);
  fault = $state.raw<Fault | null>(null);
  busy = $state(false);
  /** last is the wall that was used last, when it cannot be had now. */
  missed = $state<Wall | "">("");

  constructor(
    private readonly tab: Shelf,
    private readonly browser: Shelf,
    about: About | null,
  ) {
    const kept = readForm(tab.getItem(DRAFT));
    this.form = kept ?? blank();
    if (!kept) this.take(readChoices(browser.getItem(CHOICES)), about);
  }

  /** keep puts it by; an effect calls it whenever something was written. */
  keep(): void {
    const form = $state.snapshot(this.form);
    if (JSON.stringify(form) === JSON.stringify(blank())) this.tab.removeItem(DRAFT);
    else this.tab.setItem(DRAFT, JSON.stringify(form));
  }

  /** clear starts over. */
  clear(): void {
    this.form = blank();
    this.fault = null;
    this.understood = false;
    this.tab.removeItem(DRAFT);
  }

  addMount(): number {
    const id = Math.max(0, ...this.form.mounts.map((r) => r.id)) + 1;
    this.form.mounts.push({ id, source: "", target: "", mode: "ro" });
    return id;
  }

  removeMount(id: number): void {
    this.form.mounts = this.form.mounts.filter((r) => r.id !== id);
    if (this.fault?.field.startsWith(`mounts.${id}.`)) this.fault = null;
  }

  /** at returns what is wrong with a field. */
  at(field: string): string {
    return this.fault?.field === field ? this.fault.message : "";
  }

  /** written takes off what was wrong with a field that is written anew. */
  written(field: string): void {
    if (this.fault?.field === field) this.fault = null;
  }

  request(about: About | null): OpenRequest {
    return requestOf(this.form, about);
  }

  command(about: About | null): string {
    return commandOf(requestOf(this.form, about), this.form);
  }

  changes(about: About | null): string[] {
    return changesOf(this.form, about);
  }

  /** submit opens the session, and reports whether it did: what is wrong is in fault. */
  async submit(about: About | null, open: (r: OpenRequest) => Promise<void>): Promise<boolean> {
    if (this.busy) return false;
    this.fault = lacking(this.form, about, this.understood);
    if (this.fault) return false;
    this.busy = true;
    const rows = $state.snapshot(this.form.mounts);
    try {
      await open(this.request(about));
    } catch (err) {
      this.fault = faultOf(err, rows);
      return false;
    } finally {
      this.busy = false;
    }
    const wall = wallOf(this.form, about);
    // "No wall" is chosen by name each time, and so is somebody else's sandbox.
    this.browser.setItem(CHOICES, JSON.stringify({ wall: isOurs(wall) ? wall : "", model: this.form.model, agent: agentOf(this.form, about) }));
    this.clear();
    return true;
  }

  /** take starts from the last choices, as far as they can still be made. */
  private take(last: { wall: Wall | ""; model: string }, about: About | null): void {
    this.form.model = last.model;
    const found = about?.walls?.find((w) => w.wall === last.wall);
    if (found && !found.available) this.missed = last.wall;
    else if (last.wall !== about?.default_wall) this.form.wall = last.wall;
  }
}

/** faultOf puts an error at its field; there the message need not name the field once more. */
function faultOf(err: unknown, rows: Row[]): Fault {
  const message = messageOf(err);
  const field = err instanceof ApiError ? fieldOf(err.field, rows) : "";
  const named = err instanceof ApiError && field !== "" ? [`${err.field}: `, `${err.field.replace(/^spec\./, "")}: `] : [];
  const prefix = named.find((n) => message.startsWith(n)) ?? "";
  return { field, message: message.slice(prefix.length) };
}

/** suggest puts a goal into the draft that the next dialog opens with; what a person wrote there stays above it. */
export function suggest(tab: Shelf, goal: string, known: readonly string[]): void {
  const form = readForm(tab.getItem(DRAFT)) ?? blank();
  const before = form.goal.trim();
  form.goal = before === "" || known.includes(before) ? goal : before.endsWith(goal) ? before : `${before}\n\n${goal}`;
  tab.setItem(DRAFT, JSON.stringify(form));
}

/** chooseImage puts an image into the draft that the next dialog opens with. */
export function chooseImage(tab: Shelf, image: string): void {
  tab.setItem(DRAFT, JSON.stringify({ ...(readForm(tab.getItem(DRAFT)) ?? blank()), wall: "docker", image }));
}

function parsed(text: string | null): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text ?? "null");
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

/** readForm takes what is right of what was kept. */
export function readForm(text: string | null): Form | null {
  const kept = parsed(text);
  if (!kept) return null;
  const form = blank();
  for (const name of ["goal", "title", "workspace", "image", "model", "agent", "allow", "url", "memory", "cpus", "pids"] as const) {
    const value = kept[name];
    if (typeof value === "string") form[name] = value;
  }
  form.wall = oneOf(kept.wall, ["docker", "namespace", "remote", "local"], "");
  form.approvals = oneOf(kept.approvals, ["ask", "auto"], "");
  form.browser = typeof kept.browser === "boolean" ? kept.browser : null;
  form.network = oneOf(kept.network, ["proxy", "none", "open"], "");
  form.wire = oneOf(kept.wire, ["aio"], "");
  form.user = oneOf(kept.user, ["host", "image", "root"], "");
  for (const row of Array.isArray(kept.mounts) ? (kept.mounts as unknown[]) : []) {
    if (typeof row !== "object" || row === null) continue;
    const { source, target, mode } = row as Record<string, unknown>;
    if (typeof source !== "string" || typeof target !== "string") continue;
    form.mounts.push({ id: form.mounts.length + 1, source, target, mode: oneOf(mode, ["rw", "ro"], "ro") });
  }
  return form;
}

function readChoices(text: string | null): { wall: Wall | ""; model: string } {
  const kept = parsed(text) ?? {};
  return {
    wall: oneOf(kept.wall, ["docker", "namespace"], ""),
    model: typeof kept.model === "string" ? kept.model : "",
  };
}

function oneOf<T extends string, D extends string>(value: unknown, among: readonly T[], otherwise: D): T | D {
  return among.find((a) => a === value) ?? otherwise;
}
