/** A line of a unified diff as it is shown. Numbers are 0 where a side has no such line. */
export interface DiffLine {
  kind: "add" | "del" | "same" | "hunk" | "note";
  before: number;
  after: number;
  text: string;
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
  return out;
}
