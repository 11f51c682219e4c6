/** Numbered are the lines of a file that Read shows, and the notes that follow them. */
export interface Numbered {
  lines: { n: number; text: string }[];
  notes: string[];
}

/** numbered reads the text of a Read: every line begins with its number and a tab. */
export function numbered(text: string): Numbered {
  const lines: Numbered["lines"] = [];
  const notes: string[] = [];
  for (const line of text.split("\n")) {
    const m = /^ *(\d+)\t(.*)$/s.exec(line);
    if (m && notes.length === 0) lines.push({ n: Number(m[1]), text: m[2] ?? "" });
    else if (line.trim()) notes.push(line.replace(/^\((.*)\)$/, "$1"));
  }
  return { lines, notes };
}

/** Found is what a search found in one file. */
export interface Found {
  path: string;
  rows: { line: string; text: string; context: boolean }[];
}

export interface Search {
  files: Found[];
  notes: string[];
}

const MATCH = /^(.+?):(\d+):(.*)$/s;

/** searched reads the text of a Glob or a Grep, as its mode wrote it; lines says whether rows have numbers. */
export function searched(text: string, mode: string, lines: boolean): Search {
  const files: Found[] = [];
  const notes: string[] = [];
  const file = (path: string): Found => {
    const last = files.at(-1);
    if (last?.path === path) return last;
    const next: Found = { path, rows: [] };
    files.push(next);
    return next;
  };
  const all = text.split("\n");
  // A line of context belongs to a file that has a match.
  const paths = new Set(mode === "content" && lines ? all.map((row) => MATCH.exec(row)?.[1] ?? "") : []);
  for (const row of all) {
    if (!row || row === "--") continue;
    if (/^\(.*\)$/.test(row) || /^No (?:matches|files) found\./.test(row)) {
      notes.push(row.replace(/^\((.*)\)$/, "$1"));
      continue;
    }
    if (mode === "count") {
      const m = /^(.*):(\d+)$/.exec(row);
      if (m) file(m[1] ?? "").rows.push({ line: "", text: m[2] ?? "", context: false });
      else notes.push(row);
    } else if (mode === "content") {
      const [path, found] = contentRow(row, lines, files.at(-1)?.path, paths);
      file(path).rows.push(found);
    } else file(row);
  }
  return { files, notes };
}

/** contentRow splits one row: path, sign, number, sign, text. The sign is "-" for a line of context. */
function contentRow(row: string, lines: boolean, last: string | undefined, paths: Set<string>): [path: string, row: Found["rows"][number]] {
  // A path may hold what looks like a number between signs: that of the row before goes first.
  if (last !== undefined && row.startsWith(last)) {
    const m = (lines ? /^([:-])(\d+)\1(.*)$/s : /^([:-])()(.*)$/s).exec(row.slice(last.length));
    if (m) return [last, { line: m[2] ?? "", text: m[3] ?? "", context: m[1] === "-" }];
  }
  const context = lines ? /^(.+?)-(\d+)-(.*)$/s.exec(row) : null;
  if (context && paths.has(context[1] ?? "")) return [context[1] ?? "", { line: context[2] ?? "", text: context[3] ?? "", context: true }];
  const m = (lines ? MATCH : /^([^:]+):()(.*)$/s).exec(row) ?? context;
  if (m) return [m[1] ?? "", { line: m[2] ?? "", text: m[3] ?? "", context: m === context }];
  return ["", { line: "", text: row, context: false }];
}
