import type { Live } from "../api/types.gen";

/** A piece of output as it came; a gap is a piece that never came. */
export interface Piece {
  stream: "stdout" | "stderr";
  text: string;
  gap: boolean;
}

/** How much of a running command's output is kept: the newest part. */
const KEEP = 64 << 10;
/** The first output after a pause is told at once; what follows is gathered so long, for one rendering. */
const GATHER_MS = 100;
/** How far a cut looks for the end of a line to fall on. */
const LOOK = 4 << 10;

/** skipBytes leaves out the first n bytes of text, as UTF-8. */
function skipBytes(text: string, n: number): string {
  return new TextDecoder().decode(new TextEncoder().encode(text).slice(n));
}

/** Output collects the live output of one call, both streams in the order they came. */
export class Output {
  private gone = 0;
  private list: Piece[] = [];
  private revision = $state(0);
  private size = 0;
  private gaps = 0;
  private toldAt = -GATHER_MS;
  private telling: ReturnType<typeof setTimeout> | undefined;
  private readonly ends = { stdout: 0, stderr: 0 };

  get pieces(): readonly Piece[] {
    void this.revision;
    return this.list;
  }

  /** cut is how many characters were let go at the front. */
  get cut(): number {
    void this.revision;
    return this.gone;
  }

  /** whole says that every byte of a command that wrote so much is here: then the order of the streams is known. */
  whole(stdout: number, stderr: number): boolean {
    return this.list.length > 0 && this.gaps === 0 && this.gone === 0 && this.ends.stdout === stdout && this.ends.stderr === stderr;
  }

  add(f: Live): void {
    const stream = f.stream === "stderr" ? "stderr" : "stdout";
    const end = this.ends[stream];
    if (f.end <= end || !f.data) return;
    this.ends[stream] = f.end;
    if (f.offset > end) {
      this.list.push({ stream, text: "", gap: true });
      this.gaps++;
    }
    const text = f.offset < end ? skipBytes(f.data, end - f.offset) : f.data;
    const last = this.list.at(-1);
    // A piece grows to a few kilobytes, so that the list does not get long.
    if (last && last.stream === stream && !last.gap && last.text.length < 4096) last.text += text;
    else this.list.push({ stream, text, gap: false });
    this.size += text.length;
    if (this.size > KEEP) this.trim();
    const wait = this.toldAt + GATHER_MS - performance.now();
    if (wait <= 0) this.tell();
    else this.telling ??= setTimeout(() => this.tell(), wait);
  }

  /** clear lets go of what a result has replaced. */
  clear(): void {
    if (this.list.length === 0) return;
    this.list = [];
    this.size = 0;
    this.tell();
  }

  private tell(): void {
    clearTimeout(this.telling);
    this.telling = undefined;
    this.toldAt = performance.now();
    this.revision++;
  }

  private trim(): void {
    let first = 0;
    while (this.size > KEEP && first < this.list.length) {
      const oldest = this.list[first];
      if (!oldest) break;
      const over = this.size - KEEP;
      const at = oldest.text.length > over ? cutAt(oldest.text, over) : oldest.text.length;
      this.size -= at;
      this.gone += at;
      oldest.text = oldest.text.slice(at);
      if (oldest.text) break;
      first++;
    }
    if (first > 0) this.list = this.list.slice(first);
  }
}

/** cutAt moves a cut to the end of a line, or at least out of a character and of a sequence of a terminal. */
function cutAt(text: string, at: number): number {
  const end = /[\n\r]/.exec(text.slice(at, at + LOOK));
  if (end) return at + end.index + 1;
  const open = /\x1b(?:\[[0-?]*)?$/.exec(text.slice(Math.max(0, at - 32), at));
  if (open) at += /^\[?[0-?]*[@-~]?/.exec(text.slice(at))?.[0].length ?? 0;
  return /^[\udc00-\udfff]/.test(text.slice(at, at + 1)) ? at + 1 : at;
}

/** LiveText is the answer of a model while it comes. */
export class LiveText {
  text = $state("");
  private end = 0;

  add(f: Live): void {
    if (f.offset === 0) this.text = f.data;
    else if (f.end <= this.end) return;
    else if (f.offset < this.end) this.text += skipBytes(f.data, this.end - f.offset);
    else if (f.offset > this.end) this.text += `…${f.data}`;
    else this.text += f.data;
    this.end = f.end;
  }

  clear(): void {
    this.text = "";
    this.end = 0;
  }
}
