import { SvelteMap, SvelteSet } from "svelte/reactivity";
import { ApiError, type Client, messageOf } from "../api/client";
import type { FileInfo, FileView } from "../api/types.gen";

/** What is asked of the server. */
export type FileServer = Pick<Client, "files" | "file" | "raw">;

/** A fault as a panel shows it. */
export interface Fault {
  code: string;
  message: string;
}

/** A directory as far as it is known. Entries stay while it is read again. */
export interface Directory {
  entries: FileInfo[];
  truncated: boolean;
  loading: boolean;
  error: Fault | null;
}

/** One line of the tree. */
export interface Row {
  info: FileInfo;
  name: string;
  level: number;
  /** place and size of its set, for a screen reader. */
  at: number;
  of: number;
  parent: string;
  expanded: boolean;
}

/** The file that is shown. */
export interface Opened {
  path: string;
  view: FileView | null;
  /** picture is the address of an image's bytes in this page. */
  picture: string;
  loading: boolean;
  error: Fault | null;
  /** changedAt is when it was last seen to change, in milliseconds; 0 when it did not. */
  changedAt: number;
  removed: boolean;
}

/** The server watches as many directories. */
const WATCHED = 256;

/** Files is the tree of a session's sandbox, as far as it was opened, and the file that is shown. */
export class Files {
  /** root is the path of the workspace, once the server told it. */
  root = $state("");
  opened = $state.raw<Opened | null>(null);
  hidden = $state(false);
  filter = $state("");

  private readonly dirs = new SvelteMap<string, Directory>();
  private readonly expanded = new SvelteSet<string>();
  private asked = 0;

  constructor(
    private readonly server: FileServer,
    private readonly session: string,
  ) {}

  /** top is the workspace itself. */
  get top(): Directory | undefined {
    return this.dirs.get(this.root);
  }

  /** rows are the lines of the tree. A filter leaves the names that hold it, and the way to them. */
  get rows(): Row[] {
    const rows: Row[] = [];
    const wanted = this.filter.trim().toLowerCase();
    const matches = (info: FileInfo): boolean =>
      baseName(info.path).toLowerCase().includes(wanted) || (this.dirs.get(info.path)?.entries ?? []).some((e) => this.shows(e) && matches(e));
    const walk = (dir: string, level: number): void => {
      const entries = (this.dirs.get(dir)?.entries ?? []).filter((e) => this.shows(e) && (!wanted || matches(e)));
      for (const [i, info] of entries.entries()) {
        const expanded = info.kind === "dir" && this.expanded.has(info.path);
        rows.push({ info, name: baseName(info.path), level, at: i + 1, of: entries.length, parent: dir, expanded });
        if (expanded) walk(info.path, level + 1);
      }
    };
    walk(this.root, 1);
    return rows;
  }

  /** watched are the directories whose changes matter here. */
  get watched(): string[] {
    if (!this.root) return [];
    const list = [this.root, ...this.expanded];
    const parent = this.opened ? parentOf(this.opened.path) : "";
    if (parent && !list.includes(parent)) list.splice(1, 0, parent);
    return list.slice(0, WATCHED);
  }

  dir(path: string): Directory | undefined {
    return this.dirs.get(path);
  }

  /** start reads the workspace. */
  async start(): Promise<void> {
    await this.read("");
  }

  /** refresh reads again all that is open. */
  async refresh(): Promise<void> {
    await Promise.all([...(this.root ? [this.root, ...this.expanded] : [""]).map((path) => this.read(path)), this.reload()]);
  }

  async expand(path: string): Promise<void> {
    this.expanded.add(path);
    if (!this.dirs.has(path) || this.dirs.get(path)?.error) await this.read(path);
  }

  collapse(path: string): void {
    this.expanded.delete(path);
  }

  async toggle(path: string): Promise<void> {
    if (this.expanded.has(path)) this.collapse(path);
    else await this.expand(path);
  }

  /** open shows a file; "" shows none. */
  async open(path: string): Promise<void> {
    if (path === (this.opened?.path ?? "")) return;
    this.letGo();
    if (!path) {
      this.opened = null;
      return;
    }
    this.opened = { path, view: null, picture: "", loading: true, error: null, changedAt: 0, removed: false };
    await this.load(path, false);
  }

  /** reload reads the shown file again. */
  async reload(): Promise<void> {
    if (!this.opened) return;
    this.opened = { ...this.opened, loading: true, error: null };
    await this.load(this.opened.path, false);
  }

  /** changed takes the directories that the server saw change. */
  async changed(dirs: string[]): Promise<void> {
    const known = dirs.filter((d) => this.dirs.has(d));
    const reads = known.map((d) => this.read(d));
    if (this.opened && dirs.includes(parentOf(this.opened.path))) reads.push(this.load(this.opened.path, true));
    await Promise.all(reads);
  }

  /** bytes reads a whole file. */
  bytes(path: string): Promise<Blob> {
    return this.server.raw(this.session, path);
  }

  /** close frees what the page holds for a picture. */
  close(): void {
    this.letGo();
  }

  private shows(info: FileInfo): boolean {
    return this.hidden || !baseName(info.path).startsWith(".");
  }

  private async read(path: string): Promise<void> {
    const was = this.dirs.get(path);
    this.dirs.set(path, { entries: was?.entries ?? [], truncated: was?.truncated ?? false, loading: true, error: null });
    try {
      const listing = await this.server.files(this.session, path);
      const dir = { entries: listing.entries ?? [], truncated: listing.truncated, loading: false, error: null };
      if (path === "") {
        this.dirs.delete("");
        this.root = listing.path;
        this.dirs.set(listing.path, dir);
      } else {
        this.dirs.set(path, dir);
      }
    } catch (err) {
      const error = fault(err);
      // A directory that is gone leaves its parent's listing as soon as that is read.
      this.dirs.set(path, { entries: error.code === "not_found" ? [] : (was?.entries ?? []), truncated: false, loading: false, error });
    }
  }

  /** load reads the shown file. When it is looked at because of a change, the same bytes are no news. */
  private async load(path: string, isNews: boolean): Promise<void> {
    const turn = ++this.asked;
    const isStale = (): boolean => turn !== this.asked || this.opened?.path !== path;
    try {
      const view = await this.server.file(this.session, path);
      if (isStale() || !this.opened) return;
      const was = this.opened;
      const isSame = was.view?.hash === view.hash && was.view.info.size === view.info.size && was.view.info.mod_time === view.info.mod_time && !was.removed;
      if (isNews && isSame) return;
      let picture = isSame ? was.picture : "";
      if (view.kind === "image" && !picture) {
        const blob = await this.server.raw(this.session, path);
        if (isStale()) return;
        picture = URL.createObjectURL(blob.type === view.media_type ? blob : new Blob([blob], { type: view.media_type }));
        this.letGo();
      }
      const changedAt = isNews && was.view?.hash !== view.hash ? Date.now() : was.changedAt;
      this.opened = { path, view, picture, loading: false, error: null, changedAt, removed: false };
    } catch (err) {
      if (isStale() || !this.opened) return;
      const error = fault(err);
      const removed = error.code === "not_found" && this.opened.view !== null;
      this.opened = { ...this.opened, loading: false, error: removed ? null : error, removed };
    }
  }

  private letGo(): void {
    if (this.opened?.picture) URL.revokeObjectURL(this.opened.picture);
  }
}

export function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1) || path;
}

export function parentOf(path: string): string {
  return path.slice(0, Math.max(1, path.lastIndexOf("/")));
}

function fault(err: unknown): Fault {
  return { code: err instanceof ApiError ? err.code : "", message: messageOf(err) };
}

const kept = new WeakMap<FileServer, Map<string, Files>>();

/** filesOf returns the tree of a session, as it was left. */
export function filesOf(server: FileServer, session: string): Files {
  const all = kept.get(server) ?? new Map<string, Files>();
  kept.set(server, all);
  const files = all.get(session) ?? new Files(server, session);
  all.set(session, files);
  return files;
}
