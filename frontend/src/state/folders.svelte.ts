import { type Client, messageOf } from "../api/client";
import type { Dir } from "../api/types.gen";

/** Crumb is one step of a path. */
export interface Crumb {
  name: string;
  path: string;
}

export function crumbs(path: string): Crumb[] {
  const names = path.split("/").filter(Boolean);
  return [{ name: "/", path: "/" }, ...names.map((name, i) => ({ name, path: `/${names.slice(0, i + 1).join("/")}` }))];
}

/** Folders walks the directories of the machine that the server runs on. */
export class Folders {
  path = $state("");
  parent = $state("");
  /** refused says why the folder itself cannot be chosen. */
  refused = $state("");
  dirs = $state.raw<Dir[] | null>(null);
  more = $state(false);
  loading = $state(false);
  error = $state("");
  /** made is what went wrong with a new folder. */
  fault = $state("");
  private wanted = "";
  private turn = 0;

  constructor(private readonly client: Client) {}

  /** go looks into a folder; where it cannot, it stays where it is and says why. */
  async go(path: string): Promise<boolean> {
    const turn = ++this.turn;
    this.wanted = path;
    this.loading = true;
    this.error = "";
    this.fault = "";
    try {
      const found = await this.client.dirs(path);
      if (turn !== this.turn) return false;
      this.show(found);
      return true;
    } catch (err) {
      if (turn === this.turn) this.error = messageOf(err);
      return false;
    } finally {
      if (turn === this.turn) this.loading = false;
    }
  }

  retry(): Promise<boolean> {
    return this.go(this.wanted);
  }

  /** make makes a folder in this one and goes into it. */
  async make(name: string): Promise<boolean> {
    const text = name.trim();
    this.fault = text === "" ? "Give it a name." : /[/\0]/.test(text) || text === "." || text === ".." ? "A name has no slash in it." : "";
    if (this.fault) return false;
    this.turn++;
    try {
      this.show(await this.client.makeDir(`${this.path.replace(/\/$/, "")}/${text}`));
      return true;
    } catch (err) {
      this.fault = messageOf(err);
      return false;
    }
  }

  private show(found: { path: string; parent: string; refused: string; dirs: Dir[] | null; more: boolean }): void {
    this.path = found.path;
    this.parent = found.parent;
    this.refused = found.refused;
    this.dirs = found.dirs ?? [];
    this.more = found.more;
    this.wanted = found.path;
  }
}
