import type { BrowserDisplay } from "../api/types.gen";
import type { Call } from "../state/items.svelte";
import { count } from "../text/format";
import { oneLine } from "../text/visible";

/** The tools of the sandbox's browser, without their prefix. */
const PREFIX = "browser_";

/** isBrowser reports whether a tool acts on the sandbox's browser; asking a person to do so is a question. */
export function isBrowser(tool: string): boolean {
  return tool.startsWith(PREFIX) && tool !== "browser_ask_person";
}

function read(input: unknown, name: string): unknown {
  return typeof input === "object" && input !== null ? (input as Record<string, unknown>)[name] : undefined;
}

/** word is a field of the input as text; "" where there is none. */
function word(input: unknown, ...names: string[]): string {
  for (const name of names) {
    const v = read(input, name);
    if (typeof v === "string" && v !== "") return v;
    if (typeof v === "number") return String(v);
    if (Array.isArray(v) && v.length > 0) return v.map(String).join(", ");
  }
  return "";
}

const quoted = (text: string): string => `“${oneLine(text, 60)}”`;

/** shortURL is an address as people say it. */
export function shortURL(url: string): string {
  return url.replace(/^https?:\/\/(www\.)?/, "").replace(/\/$/, "");
}

const tags: Record<string, string> = { a: "link", button: "button", input: "field", textarea: "field", select: "choice", img: "picture" };

/** targetText says in words what the browser calls <a#more.big> "More". */
function targetText(target: string): string {
  const [, tag, id = "", name = ""] = /^<([\w-]+)(#[^.>\s]+)?[^>]*>(?: "(.*)")?$/s.exec(target) ?? [];
  if (!tag) return target;
  return [tags[tag] ?? tag, name ? quoted(name) : id].filter(Boolean).join(" ");
}

/** isSecret reports whether what a call types must not be shown: it went into a field for a password, or nobody knows yet into what. */
export function isSecret(tool: string, d: BrowserDisplay | null): boolean {
  return tool === "browser_type" && (d === null || d.secret);
}

/** shownInput is what a call was asked to do, without what must not be shown. */
export function shownInput(tool: string, input: unknown, d: BrowserDisplay | null): unknown {
  return isSecret(tool, d) && typeof input === "object" && input !== null ? { ...input, text: "(not shown)" } : input;
}

/** actionText says in one line what a call was to do. What it was done to has a name once that is known. */
export function actionText(tool: string, input: unknown, d: BrowserDisplay | null): string {
  const index = word(input, "index");
  const selector = word(input, "selector");
  const target = oneLine(targetText(d?.target ?? ""), 100);
  const what = target ? [index, target].filter(Boolean).join(" ") : index ? `element ${index}` : selector ? quoted(selector) : "";
  const on = (verb: string, link: string): string => (what ? `${verb} ${link}${what}` : verb);
  switch (tool.slice(PREFIX.length)) {
    case "navigate":
      return `Go to ${oneLine(shortURL(word(input, "url")))}`;
    case "click":
      return on("Click", "");
    case "type":
      return `${on(`Type ${isSecret(tool, d) ? (d ? "a secret" : "a text") : quoted(word(input, "text"))}`, "into ")}${read(input, "submit") === true ? " and submit" : ""}`;
    case "extract":
      return "Read the page";
    case "screenshot":
      return read(input, "full_page") === true || read(input, "full") === true ? "Take a picture of the whole page" : on("Take a picture", "of ");
    case "scroll":
      return on(`Scroll ${word(input, "direction")}`.trimEnd(), "at ");
    case "press":
      return on(`Press ${oneLine(word(input, "keys"), 60)}`, "in ");
    case "select":
      return on(`Choose ${quoted(word(input, "values"))}`, "in ");
    case "hover":
      return on("Point", "at ");
    case "back":
      return "Go back";
    case "forward":
      return "Go forward";
    case "reload":
      return "Reload";
    case "wait": {
      const wanted = word(input, "text", "selector", "url");
      return wanted ? `Wait for ${quoted(wanted)}` : "Wait";
    }
    case "tabs":
      return tabsText(word(input, "action", "op"), word(input, "tab"));
    case "upload":
      return on(`Give ${oneLine(word(input, "files"), 100) || "a file"}`, "to ");
    case "downloads":
      return "List the downloads";
    case "console":
      return "Read the console";
    case "dialog":
      return read(input, "accept") === false ? "Dismiss the dialog" : "Accept the dialog";
    default:
      return oneLine(tool.slice(PREFIX.length).replaceAll("_", " "), 60);
  }
}

function tabsText(op: string, tab: string): string {
  switch (op) {
    case "switch":
      return `Switch to tab ${tab}`;
    case "close":
      return tab ? `Close tab ${tab}` : "Close the tab";
    case "new":
      return "Open a tab";
    default:
      return "List the tabs";
  }
}

/** pageText names the page that a call ended on. */
export function pageText(d: BrowserDisplay | null): string {
  if (!d) return "";
  const title = oneLine(d.title ?? "", 80);
  const url = oneLine(shortURL(d.url ?? ""), 120);
  return [title, url === title ? "" : url].filter(Boolean).join(" · ");
}

/** refusalOf tells why a call was not let to the page: a person has it, or had it since the agent's last look. */
export function refusalOf(call: Pick<Call, "state" | "text">, d: BrowserDisplay | null): "" | "held" | "look" {
  if (call.state !== "error") return "";
  return d?.refused === "held" || d?.refused === "look" ? d.refused : "";
}

/** elementsText counts what a look has numbered. */
export function elementsText(d: BrowserDisplay | null): string {
  return d?.elements ? count(d.elements, "element") : "";
}
