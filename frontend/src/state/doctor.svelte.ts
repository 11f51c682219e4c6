import type { Check, Doctor } from "../api/types.gen";

const DISMISSED = "glovebox.doctor.dismissed";

/** Health is what the checks found, and when. */
export class Health {
  doctor = $state.raw<Doctor | null>(null);
  /** at is when they ran, in milliseconds since the epoch. */
  at = $state(0);
  busy = $state(false);
  error = $state("");
  private dismissed = $state("");

  constructor(private readonly storage: Pick<Storage, "getItem" | "setItem">) {
    this.dismissed = storage.getItem(DISMISSED) ?? "";
  }

  get faults(): Check[] {
    return (this.doctor?.checks ?? []).filter((c) => c.status !== "ok");
  }

  get isDismissed(): boolean {
    return this.dismissed === this.key;
  }

  /** dismiss puts the faults out of sight until they are others. */
  dismiss(): void {
    this.dismissed = this.key;
    this.storage.setItem(DISMISSED, this.key);
  }

  async run(check: () => Promise<Doctor>): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    try {
      this.doctor = await check();
      this.at = Date.now();
      this.error = "";
    } catch (err) {
      this.error = err instanceof Error ? err.message : String(err);
      throw err;
    } finally {
      this.busy = false;
    }
  }

  private get key(): string {
    return this.faults.map((c) => `${c.name} ${c.status} ${c.fix}`).join("\n");
  }
}

/** Fix is what to do, in words, and the lines of it that can be pasted into a shell. */
export interface Fix {
  text: string;
  commands: string[];
}

const PROGRAMS = /^(sudo|apt-get|apt|dnf|systemctl|dockerd|docker|glovebox|make|export|sysctl|loginctl)\b/;

/** fixOf finds the commands in what a check says is to be done: what follows a colon, or is the whole of it. */
export function fixOf(text: string): Fix {
  if (PROGRAMS.test(text)) return { text: "", commands: [text] };
  const variables = /^set ([A-Z][A-Z0-9_]*(?: or [A-Z][A-Z0-9_]*)*) where/.exec(text)?.[1];
  if (variables) return { text, commands: variables.split(" or ").map((name) => `export ${name}=…`) };
  const commands: string[] = [];
  for (const part of text.matchAll(/: ([^:;()]+)/g)) {
    for (const word of (part[1] ?? "").split(/ or /)) {
      if (PROGRAMS.test(word.trim())) commands.push(word.trim());
    }
  }
  // The commands are shown beside it, so they need not be in the words too, except where one of them is enough.
  const colon = text.indexOf(": ");
  const words = commands.length > 0 && !text.slice(colon).includes(" or ") ? `${text.slice(0, colon).replace(" (", ", on ")}:` : text;
  return { text: words, commands };
}
