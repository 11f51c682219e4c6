import { Lexer, type Token } from "marked";

export type { Token, Tokens } from "marked";

/** The longest text that is parsed; what is longer is shown as it is. */
export const LONGEST = 200_000;

/**
 * Blocks turns Markdown into tokens, and never into HTML: a component shows the
 * tokens that it knows, as text nodes. While text grows, only what may still
 * change is parsed again, and the blocks before it keep their identity.
 */
export class Blocks {
  private text = "";
  private tokens: Token[] = [];

  /** of returns the blocks of a text whose lines end with LF; null when it cannot be parsed. */
  of(text: string, growing = false): Token[] | null {
    if (text.length > LONGEST) return null;
    let kept: Token[] = [];
    let from = 0;
    if (growing && this.text && text.startsWith(this.text)) {
      // The last two blocks may join with what comes, as a list does over an empty line.
      kept = this.tokens.slice(0, -2);
      from = kept.reduce((n, t) => n + t.raw.length, 0);
    }
    try {
      this.tokens = [...kept, ...new Lexer({ gfm: true }).lex(text.slice(from))];
      this.text = text;
      return this.tokens;
    } catch {
      return null; // nested too deep, for one
    }
  }
}

/** safeLink returns the address of a link that may be followed; "" for any other. */
export function safeLink(href: string): string {
  try {
    const url = new URL(href);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : "";
  } catch {
    return "";
  }
}

/** target names where a link goes, when its text does not already say so. */
export function target(href: string, text: string): string {
  const url = new URL(href);
  const place = url.protocol === "mailto:" ? url.pathname : url.host;
  const said = text.trim().replace(/^(?:https?:\/\/|mailto:)/, "");
  return said === place || said.startsWith(`${place}/`) ? "" : place;
}

const NAMED: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

/** entities reads the character references of Markdown text. */
export function entities(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-z]+));/g, (all, dec?: string, hex?: string, name?: string) => {
    if (name) return NAMED[name] ?? all;
    const code = dec ? Number(dec) : Number.parseInt(hex ?? "", 16);
    return code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000) ? String.fromCodePoint(code) : "\ufffd";
  });
}
