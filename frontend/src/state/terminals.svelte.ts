import { ApiError, type Client, messageOf } from "../api/client";
import type { Terminal } from "../api/types.gen";

/** What is asked of the server. */
export type TerminalServer = Pick<Client, "terminals" | "openTerminal" | "closeTerminal">;

/** Terminals are those of one session. They live in its sandbox: a page that is closed leaves them be. */
export class Terminals {
  /** list is null until it was read. */
  list = $state.raw<Terminal[] | null>(null);
  /** current is the id of the one that is shown. */
  current = $state("");
  error = $state.raw<{ code: string; message: string } | null>(null);
  opening = $state(false);

  constructor(
    private readonly server: TerminalServer,
    private readonly session: string,
  ) {}

  get shown(): Terminal | null {
    return this.list?.find((t) => t.id === this.current) ?? null;
  }

  /** refresh reads which there are, and shows one that lives where none is shown. */
  async refresh(): Promise<void> {
    try {
      this.list = await this.server.terminals(this.session);
      this.error = null;
      if (!this.shown) this.current = (this.list.findLast((t) => !t.ended_at) ?? this.list.at(-1))?.id ?? "";
    } catch (err) {
      this.failed(err);
    }
  }

  /** open starts one and shows it. */
  async open(cols: number, rows: number): Promise<boolean> {
    if (this.opening) return false;
    this.opening = true;
    try {
      const t = await this.server.openTerminal(this.session, { argv: null, dir: "", env: null, cols, rows });
      this.list = [...(this.list ?? []).filter((o) => o.id !== t.id), t];
      this.current = t.id;
      this.error = null;
      return true;
    } catch (err) {
      this.failed(err);
      return false;
    } finally {
      this.opening = false;
    }
  }

  /** close ends one with all its processes, and shows its neighbour. */
  async close(id: string): Promise<boolean> {
    try {
      await this.server.closeTerminal(this.session, id);
    } catch (err) {
      this.failed(err);
      return false;
    }
    const list = this.list ?? [];
    const at = list.findIndex((t) => t.id === id);
    this.list = list.filter((t) => t.id !== id);
    if (this.current === id) this.current = (this.list[at] ?? this.list.at(-1))?.id ?? "";
    return true;
  }

  /** changed takes what a view of a terminal was told. */
  changed(t: Terminal): void {
    this.list = (this.list ?? []).map((o) => (o.id === t.id ? t : o));
  }

  dismiss(): void {
    this.error = null;
  }

  private failed(err: unknown): void {
    this.error = { code: err instanceof ApiError ? err.code : "", message: messageOf(err) };
  }
}

/** nameOf is what a terminal's tab says: its program, with a number where several run the same. */
export function nameOf(list: Terminal[], t: Terminal): string {
  const program = (o: Terminal): string => (o.argv?.[0] ?? "shell").replace(/^-/, "").split("/").pop() || "shell";
  const same = list.filter((o) => program(o) === program(t));
  return same.length > 1 ? `${program(t)} ${same.indexOf(t) + 1}` : program(t);
}

const KEY = "glovebox.terminal";
export const FONT = { least: 9, most: 24, usual: 13 };

/** TerminalPrefs are how a person likes terminals. */
export class TerminalPrefs {
  size = $state(FONT.usual);
  /** reader makes terminals speak to a screen reader, which costs speed. */
  reader = $state(false);

  constructor(private readonly storage: Pick<Storage, "getItem" | "setItem">) {
    try {
      const kept = JSON.parse(storage.getItem(KEY) ?? "{}") as { size?: unknown; reader?: unknown } | null;
      if (typeof kept?.size === "number" && kept.size >= FONT.least && kept.size <= FONT.most) this.size = kept.size;
      this.reader = kept?.reader === true;
    } catch {
      // What was kept is not ours: the usual has to do.
    }
  }

  grow(by: number): void {
    this.size = by === 0 ? FONT.usual : Math.min(FONT.most, Math.max(FONT.least, this.size + by));
    this.keep();
  }

  setReader(on: boolean): void {
    this.reader = on;
    this.keep();
  }

  private keep(): void {
    this.storage.setItem(KEY, JSON.stringify({ size: this.size, reader: this.reader }));
  }
}

const kept = new WeakMap<TerminalServer, Map<string, Terminals>>();

/** terminalsOf returns the terminals of a session, the same for every panel that asks. */
export function terminalsOf(server: TerminalServer, session: string): Terminals {
  const all = kept.get(server) ?? new Map<string, Terminals>();
  kept.set(server, all);
  const terminals = all.get(session) ?? new Terminals(server, session);
  all.set(session, terminals);
  return terminals;
}
