/** A part of a message: running text, or a block of code between fences. */
export interface Part {
  code: boolean;
  lang: string;
  text: string;
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`\s]*)[^`]*$/;

/** fences splits a message at its code fences. One that is still open runs to the end. */
export function fences(message: string): Part[] {
  const parts: Part[] = [];
  let lines: string[] = [];
  let open = "";
  let lang = "";
  const flush = (code: boolean): void => {
    const text = code ? lines.join("\n") : lines.join("\n").replace(/^\n+|\s+$/g, "");
    if (text || code) parts.push({ code, lang: code ? lang : "", text });
    lines = [];
  };
  for (const line of message.split("\n")) {
    const fence = FENCE.exec(line);
    const mark = fence?.[1] ?? "";
    if (!open && mark) {
      flush(false);
      open = mark;
      lang = fence?.[2] ?? "";
    } else if (open && mark.startsWith(open) && line.trim() === mark) {
      flush(true);
      open = "";
    } else lines.push(line);
  }
  if (lines.length > 0 || open) flush(open !== "");
  return parts;
}
