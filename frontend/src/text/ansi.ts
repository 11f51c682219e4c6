// Strings that run until a terminator: OSC (titles, links, the clipboard), DCS, SOS, PM and APC.
// One that never ends takes the rest of its line and no more, so that it cannot hide what follows.
const STRINGS = /(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])(?:(?!\x1b\\)[^\x07\x9c\n])*(?:\x07|\x9c|\x1b\\|(?=\n)|$)/g;
const CSI = /(?:\x1b\[|\x9b)([0-?]*)[ -/]*([@-~])?/g;
const ESCAPES = /\x1b[ -/]*[0-~]?/g;
// What is left of the control characters, and the marks that reorder text on the screen.
const CONTROLS = /[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
// Private use, for "erase to the end of the line" while a line is put together.
const ERASE_END = "\uf8fe";
const ERASE_LINE = "\uf8ff";
const SPECIAL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\uf8fe\uf8ff]/;

/**
 * plain returns what a terminal would be left showing, as text: no colours,
 * links, titles or clipboard writes; a progress line in its last state. What it
 * returns is put into text nodes only.
 */
export function plain(raw: string): string {
  if (!SPECIAL.test(raw)) return raw;
  const text = raw
    .replaceAll(ERASE_END, "")
    .replaceAll(ERASE_LINE, "")
    .replace(STRINGS, "")
    .replace(CSI, (_, args: string, final: string | undefined) =>
      final !== "K" ? "" : args === "1" || args === "2" ? ERASE_LINE : ERASE_END,
    )
    .replace(ESCAPES, "")
    .replace(/\r+\n/g, "\n")
    .replace(CONTROLS, "");
  return text.split("\n").map(settle).join("\n");
}

/** settle plays carriage returns, backspaces and erasures of one line. */
function settle(line: string): string {
  if (!/[\r\b\uf8fe\uf8ff]/.test(line)) return line;
  const cells: string[] = [];
  let at = 0;
  for (const c of line) {
    if (c === "\r") at = 0;
    else if (c === "\b") at = Math.max(0, at - 1);
    else if (c === ERASE_END) cells.length = Math.min(cells.length, at);
    else if (c === ERASE_LINE) cells.fill(" ");
    else {
      while (cells.length < at) cells.push(" ");
      cells[at++] = c;
    }
  }
  return cells.join("").trimEnd();
}
