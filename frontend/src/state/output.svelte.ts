import type { Live } from "../api/types.gen";

/** A piece of output as it came; a gap is a piece that never came. */
export interface Piece {
  stream: "stdout" | "stderr";
  text: string;
  gap: boolean;
}

/** How much of a running command's output is kept: the newest part. */
const KEEP = 64 << 10;

/** skipBytes leaves out the first n bytes of text, as UTF-8. */
function skipBytes(text: string, n: number): string {
  return new TextDecoder().decode(new TextEncoder().encode(text).slice(n));
}

/** Output collects the live output of one call, both streams in the order they came. */
export class Output {
  pieces = $state.raw<Piece[]>([]);
  /** cut is how many characters were let go at the front. */
  cut = $state(0);

  private size = 0;
  private readonly ends = new Map<string, number>();

  add(f: Live): void {
    const stream = f.stream === "stderr" ? "stderr" : "stdout";
    const end = this.ends.get(stream) ?? 0;
    if (f.end <= end || !f.data) return;
    this.ends.set(stream, f.end);
    const pieces = [...this.pieces];
    if (f.offset > end) pieces.push({ stream, text: "", gap: true });
    const text = f.offset < end ? skipBytes(f.data, end - f.offset) : f.data;
    const last = pieces.at(-1);
    // A piece grows to a few kilobytes, so that neither the list nor a change of it gets long.
    if (last && last.stream === stream && !last.gap && last.text.length < 4096) {
      pieces[pieces.length - 1] = { ...last, text: last.text + text };
    } else pieces.push({ stream, text, gap: false });
    this.size += text.length;
    let first = 0;
    while (this.size > KEEP && first < pieces.length) {
      const oldest = pieces[first];
      if (!oldest) break;
      const over = this.size - KEEP;
      if (oldest.text.length > over) {
        pieces[first] = { ...oldest, text: oldest.text.slice(over) };
        this.size -= over;
        this.cut += over;
        break;
      }
      this.size -= oldest.text.length;
      this.cut += oldest.text.length;
      first++;
    }
    this.pieces = first ? pieces.slice(first) : pieces;
  }
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
