const HIDDEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/g;

/**
 * visible writes characters that cannot be seen, or that reorder what is seen,
 * by their numbers: nobody allows what they cannot read. The joiners stay: emoji
 * and several scripts are written with them.
 */
export function visible(text: string): string {
  return text.replace(HIDDEN, (c) => {
    const n = c.charCodeAt(0);
    return n < 0x20 ? String.fromCharCode(0x2400 + n) : `⟨U+${n.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** titleOf returns a session's title for a row, a heading or the title of the window. */
export function titleOf(s: { title: string }): string {
  return oneLine(s.title) || "Untitled";
}

/** oneLine returns the start of a text for a row of its own. */
export function oneLine(text: string, max = 300): string {
  const line = text.trimStart().split("\n", 1)[0] ?? "";
  return visible(line.length > max ? `${line.slice(0, max)}…` : line.trimEnd());
}

/** repeats reports whether a text says again what a cause says, or its beginning where the cause is long. */
export function repeats(text: string, cause: string): boolean {
  return cause !== "" && text.includes(cause.slice(0, 60));
}
