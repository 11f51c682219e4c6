/** A line of a unified diff as it is shown. Numbers are 0 where a side has no such line. */
export interface DiffLine {
  kind: "add" | "del" | "same" | "hunk" | "note";
  before: number;
  after: number;
  text: string;
  /** mark is the part that differs from the line that it replaces or is replaced by. */
  mark?: [from: number, to: number];
}

/** parseDiff reads a unified diff of one file. The file header is left out. */
export function parseDiff(diff: string): DiffLine[] {
  const out: DiffLine[] = [];
  let before = 0;
  let after = 0;
  let inHunk = false;
  for (const line of diff.replace(/\n$/, "").split("\n")) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$/.exec(line);
    if (hunk) {
      before = Number(hunk[1]);
      after = Number(hunk[2]);
      inHunk = true;
      out.push({ kind: "hunk", before: 0, after: 0, text: line });
    } else if (!inHunk) {
      continue;
    } else if (line.startsWith("+")) out.push({ kind: "add", before: 0, after: after++, text: line.slice(1) });
    else if (line.startsWith("-")) out.push({ kind: "del", before: before++, after: 0, text: line.slice(1) });
    else if (line.startsWith("\\")) out.push({ kind: "note", before: 0, after: 0, text: line.slice(2) });
    else out.push({ kind: "same", before: before++, after: after++, text: line.slice(1) });
  }
  return marked(out);
}

/** replacing shows what an edit will put in the place of what, before it is known where. */
export function replacing(before: string, after: string): DiffLine[] {
  const lines = (text: string, kind: "add" | "del"): DiffLine[] =>
    text === "" ? [] : text.replace(/\n$/, "").split("\n").map((t) => ({ kind, before: 0, after: 0, text: t }));
  return marked([...lines(before, "del"), ...lines(after, "add")]);
}

/** marked finds what differs within lines that were replaced one for one. */
function marked(lines: DiffLine[]): DiffLine[] {
  for (let i = 0; i < lines.length; ) {
    const dels = run(lines, i, "del");
    const adds = run(lines, i + dels, "add");
    if (dels > 0 && dels === adds) {
      for (let k = 0; k < dels; k++) mark(lines[i + k], lines[i + dels + k]);
    }
    i += dels + adds || 1;
  }
  return lines;
}

function run(lines: DiffLine[], from: number, kind: DiffLine["kind"]): number {
  let n = 0;
  while (lines[from + n]?.kind === kind) n++;
  return n;
}

function mark(del: DiffLine | undefined, add: DiffLine | undefined): void {
  if (!del || !add) return;
  const [a, b] = [del.text, add.text];
  const most = Math.min(a.length, b.length);
  let head = 0;
  while (head < most && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < most - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  // Lines that share little were not changed but replaced: marks would only be noise.
  if (a.slice(0, head).trim().length + a.slice(a.length - tail).trim().length < most * 0.3) return;
  // A character of two halves is marked whole.
  if (/[\ud800-\udbff]/.test(a.charAt(head - 1))) head--;
  if (tail > 0 && /[\udc00-\udfff]/.test(a.charAt(a.length - tail))) tail--;
  if (a.length - tail > head) del.mark = [head, a.length - tail];
  if (b.length - tail > head) add.mark = [head, b.length - tail];
}
