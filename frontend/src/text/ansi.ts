// Strings that run until a terminator: OSC (titles, links, the clipboard), DCS, SOS, PM and APC.
// One that never ends takes the rest of its line and no more, so that it cannot hide what follows.
const STRINGS = /(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])(?:(?!\x1b\\)[^\x07\x9c\n])*(?:\x07|\x9c|\x1b\\|(?=\n)|$)/g;
// What is acted on or left out: CSI, other escapes, line ends of DOS, single controls, and the marks that
// reorder text on the screen.
const TOKEN =
  /(?:\x1b\[|\x9b)([0-?]*)[ -/]*([@-~])?|\x1b[ -/]*[0-~]?|\r+(?=\n)|[\x00-\x08\n\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const SPECIAL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/;
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1f64f}\u{1f680}-\u{1f6ff}\u{1f900}-\u{1f9ff}\u{20000}-\u{3fffd}]/u;
const MARK = /[\p{M}\u200d\ufe00-\ufe0f\u{1f3fb}-\u{1f3ff}]/u;

/** How far a jump of the cursor may go: a longer one would only cost memory. */
const COLUMNS = 240;

/** A run is text of one look: names of classes, "" for plain. */
export interface Run {
  text: string;
  look: string;
}

/** plain returns what a terminal would be left showing, as text alone. */
export function plain(raw: string): string {
  return SPECIAL.test(raw) ? runs(raw, 1).map((r) => r.text).join("") : raw;
}

/**
 * runs returns what a terminal would be left showing: colours as looks, a
 * progress line in its last state, and no links, titles or clipboard writes.
 * What it returns is put into text nodes only. After max runs the rest is plain,
 * so that output cannot fill the page with elements.
 */
export function runs(raw: string, max = 400): Run[] {
  if (!SPECIAL.test(raw)) return raw ? [{ text: raw, look: "" }] : [];
  const text = raw.replace(STRINGS, "");
  const sheet = new Sheet();
  let from = 0;
  for (const m of text.matchAll(TOKEN)) {
    if (m.index > from) sheet.write(text.slice(from, m.index));
    from = m.index + m[0].length;
    if (m[2] !== undefined) sheet.control(m[2], m[1] ?? "");
    else if (m[0] === "\n") sheet.down();
    else if (m[0] === "\r") sheet.column = 0;
    else if (m[0] === "\b") sheet.column = Math.max(0, sheet.column - 1);
  }
  sheet.write(text.slice(from));
  return sheet.runs(max);
}

/** A line is runs while it is only added to, and cells once something in it is written over. */
interface Line {
  runs: Run[];
  cells: Run[] | null;
  width: number;
}

class Sheet {
  column = 0;

  private readonly lines: Line[] = [{ runs: [], cells: null, width: 0 }];
  private row = 0;
  private readonly pen = new Pen();

  write(text: string): void {
    if (!text) return;
    const line = this.line();
    if (!line.cells && this.column === line.width) {
      const last = line.runs.at(-1);
      if (last && last.look === this.pen.look) last.text += text;
      else line.runs.push({ text, look: this.pen.look });
      line.width += width(text);
      this.column = line.width;
      return;
    }
    const cells = this.cells(line);
    for (const c of text) {
      if (MARK.test(c) && this.column > 0) {
        const before = cells[this.column - 1]?.text === "" ? this.column - 2 : this.column - 1;
        const cell = cells[before];
        if (cell) cells[before] = { ...cell, text: cell.text + c };
        continue;
      }
      while (cells.length < this.column) cells.push({ text: " ", look: "" });
      const wide = WIDE.test(c);
      this.blank(cells, this.column);
      cells[this.column++] = { text: c, look: this.pen.look };
      if (!wide) continue;
      this.blank(cells, this.column);
      cells[this.column++] = { text: "", look: this.pen.look }; // its right half
    }
    line.width = cells.length;
  }

  down(): void {
    this.row++;
    this.column = 0;
    if (this.row === this.lines.length) this.lines.push({ runs: [], cells: null, width: 0 });
  }

  control(final: string, args: string): void {
    const n = Math.max(1, Number.parseInt(args, 10) || 1);
    const line = this.line();
    switch (final) {
      case "m":
        return this.pen.select(args);
      case "A":
      case "F":
        this.row = Math.max(0, this.row - n);
        if (final === "F") this.column = 0;
        return;
      case "B":
      case "E":
        this.row = Math.min(this.lines.length - 1, this.row + n);
        if (final === "E") this.column = 0;
        return;
      case "C":
        this.column = Math.max(this.column, Math.min(this.column + n, COLUMNS));
        return;
      case "D":
        this.column = Math.max(0, this.column - n);
        return;
      case "G":
        this.column = Math.min(n - 1, Math.max(line.width, COLUMNS));
        return;
      case "K":
        return this.erase(line, args);
      case "J":
        // A cleared screen keeps its text here: what was printed is not to be hidden.
        if (args !== "" && args !== "0") return;
        this.erase(line, "");
        this.lines.length = this.row + 1;
        return;
    }
  }

  runs(max: number): Run[] {
    const out: Run[] = [];
    const add = ({ text, look }: Run): void => {
      if (!text) return;
      const last = out.at(-1);
      if (last && (last.look === look || out.length >= max)) last.text += text;
      else out.push({ text, look: out.length < max - 1 ? look : "" });
    };
    this.lines.forEach((line, i) => {
      if (i > 0) add({ text: "\n", look: out.at(-1)?.look ?? "" });
      if (line.cells) trimmed(line.cells).forEach(add);
      else line.runs.forEach(add);
    });
    return out;
  }

  private line(): Line {
    const line = this.lines[this.row];
    if (!line) throw new Error("the cursor left the sheet");
    return line;
  }

  private cells(line: Line): Run[] {
    if (line.cells) return line.cells;
    const cells: Run[] = [];
    for (const { text, look } of line.runs) {
      for (const c of text) {
        const last = cells.at(-1)?.text === "" ? cells.length - 2 : cells.length - 1;
        const before = cells[last];
        if (MARK.test(c) && before) {
          cells[last] = { ...before, text: before.text + c };
          continue;
        }
        cells.push({ text: c, look });
        if (WIDE.test(c)) cells.push({ text: "", look });
      }
    }
    line.runs = [];
    line.cells = cells;
    return cells;
  }

  private erase(line: Line, args: string): void {
    const cells = this.cells(line);
    if (args === "" || args === "0") {
      this.blank(cells, this.column);
      cells.length = Math.min(cells.length, this.column);
    } else cells.fill({ text: " ", look: "" }, 0, args === "1" ? this.column + 1 : cells.length);
    line.width = cells.length;
  }

  /** blank makes room at a column: half of a wide character cannot stay. */
  private blank(cells: Run[], at: number): void {
    const cell = cells[at];
    if (!cell) return;
    if (cell.text === "" && at > 0) cells[at - 1] = { text: " ", look: "" };
    else if (cells[at + 1]?.text === "") cells[at + 1] = { text: " ", look: "" };
  }
}

function width(text: string): number {
  if (/^[\x20-\x7e\t]*$/.test(text)) return text.length;
  let n = 0;
  for (const c of text) if (!MARK.test(c)) n += WIDE.test(c) ? 2 : 1;
  return n;
}

function trimmed(cells: Run[]): Run[] {
  let end = cells.length;
  while (end > 0 && cells[end - 1]?.text === " ") end--;
  return cells.slice(0, end);
}

/** Pen is what SGR sequences choose. Concealed and blinking text is shown as it is. */
class Pen {
  look = "";
  private fg = "";
  private bg = "";
  private readonly on = new Set<string>();

  select(args: string): void {
    const list = args.replaceAll(":", ";").split(";").map((a) => Number.parseInt(a, 10) || 0);
    for (let i = 0; i < list.length; i++) {
      const n = list[i] ?? 0;
      if (n === 38 || n === 48) {
        const [color, used] = extended(list.slice(i + 1));
        if (n === 38) this.fg = color && `fg-${color}`;
        else this.bg = color && `bg-${color}`;
        i += used;
      } else this.set(n);
    }
    // A background is a tint under readable text, so the colour of the text would only take from it.
    this.look = [...this.on, this.bg || this.fg].filter(Boolean).join(" ");
  }

  private set(n: number): void {
    const attribute = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike" }[n];
    if (attribute) this.on.add(attribute);
    else if (n === 0) {
      this.on.clear();
      this.fg = this.bg = "";
    } else if (n === 22) {
      this.on.delete("bold");
      this.on.delete("dim");
    } else if (n === 23) this.on.delete("italic");
    else if (n === 24) this.on.delete("underline");
    else if (n === 27) this.on.delete("inverse");
    else if (n === 29) this.on.delete("strike");
    else if (n === 39) this.fg = "";
    else if (n === 49) this.bg = "";
    else if ((n >= 30 && n <= 37) || (n >= 90 && n <= 97)) this.fg = `fg-${names[n % 10] ?? ""}`;
    else if ((n >= 40 && n <= 47) || (n >= 100 && n <= 107)) this.bg = `bg-${names[n % 10] ?? ""}`;
  }
}

const names = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/** extended maps one of 256 colours, or of all, to the eight that are readable in both themes. */
function extended(args: number[]): [color: string, used: number] {
  if (args[0] === 2) return [nearest(args[1] ?? 0, args[2] ?? 0, args[3] ?? 0), 4];
  if (args[0] !== 5) return ["", 0];
  const n = args[1] ?? 0;
  if (n < 16) return [names[n % 8] ?? "", 2];
  if (n >= 232) return [n < 244 ? "black" : "white", 2];
  const at = n - 16;
  const level = (i: number): number => (i % 6) * 51;
  return [nearest(level(Math.floor(at / 36)), level(Math.floor(at / 6)), level(at)), 2];
}

function nearest(r: number, g: number, b: number): string {
  const top = Math.max(r, g, b);
  if (top - Math.min(r, g, b) < 32) return top < 128 ? "black" : "white";
  const bit = (c: number): number => (c > top * 0.6 ? 1 : 0);
  return names[bit(r) + 2 * bit(g) + 4 * bit(b)] ?? "";
}
