import { HighlightStyle, LanguageDescription, foldGutter, syntaxHighlighting, type LanguageSupport } from "@codemirror/language";
import { languages } from "@codemirror/language-data";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState } from "@codemirror/state";
import { EditorView, drawSelection, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { arrival } from "../ui/part";

/** Lines that are longer are wrapped, and a file of that kind is not highlighted: it would take seconds. */
const LONG_LINE = 5_000;

const look = EditorView.theme({
  "&": { height: "100%", backgroundColor: "transparent", color: "var(--text)", fontSize: "var(--size-s)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6", fontVariantLigatures: "none", scrollbarWidth: "thin", scrollbarColor: "var(--border-strong) transparent" },
  ".cm-content": { padding: "8px 0" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--text-3)", border: "0", paddingLeft: "4px" },
  ".cm-foldGutter .cm-gutterElement": { cursor: "pointer" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": { background: "var(--selection)" },
  ".cm-selectionMatch": { backgroundColor: "var(--accent-soft)" },
  ".cm-searchMatch": { backgroundColor: "var(--warn-soft)", outline: "1px solid var(--warn-line)" },
  ".cm-searchMatch-selected": { backgroundColor: "var(--warn-line)" },
  ".cm-specialChar": { color: "var(--bad)" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--bg-active)", border: "0", color: "var(--text-2)", padding: "0 6px" },
  ".cm-panels": { backgroundColor: "var(--bg-raised)", color: "var(--text)", border: "0", fontFamily: "var(--font)" },
  ".cm-panels-top": { borderBottom: "1px solid var(--border)" },
  ".cm-panel.cm-search": { display: "flex", flexWrap: "wrap", alignItems: "center", gap: "4px 6px", padding: "6px 30px 6px 8px", fontSize: "var(--size-s)" },
  ".cm-panel.cm-search br": { display: "none" },
  ".cm-panel.cm-search label": { display: "inline-flex", alignItems: "center", gap: "4px", margin: "0", fontSize: "var(--size-xs)", color: "var(--text-2)" },
  ".cm-panel.cm-search .cm-textfield": { flex: "1 1 120px", margin: "0", padding: "4px 8px", border: "1px solid var(--border-strong)", borderRadius: "var(--radius-s)", background: "var(--bg)", color: "inherit", fontSize: "inherit" },
  ".cm-panel.cm-search .cm-button": { margin: "0", padding: "3px 8px", border: "1px solid var(--border-strong)", borderRadius: "var(--radius-s)", background: "var(--bg-raised)", color: "inherit", fontSize: "inherit", cursor: "pointer" },
  ".cm-panel.cm-search [name=close]": { top: "4px", right: "6px", width: "24px", height: "24px", color: "var(--text-2)", cursor: "pointer" },
  ".cm-panel.cm-search :focus-visible": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
});

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword], color: "var(--term-magenta)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--term-green)" },
  { tag: [tags.comment, tags.meta], color: "var(--text-3)", fontStyle: "italic" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--term-yellow)" },
  { tag: [tags.typeName, tags.className, tags.namespace, tags.tagName], color: "var(--term-cyan)" },
  { tag: [tags.function(tags.variableName), tags.function(tags.propertyName), tags.labelName], color: "var(--term-blue)" },
  { tag: [tags.propertyName, tags.attributeName], color: "var(--term-blue)" },
  { tag: tags.heading, color: "var(--term-blue)", fontWeight: "600" },
  { tag: [tags.link, tags.url], color: "var(--term-cyan)", textDecoration: "underline" },
  { tag: tags.strong, fontWeight: "600" },
  { tag: tags.emphasis, fontStyle: "italic" },
  { tag: tags.invalid, color: "var(--term-red)" },
]);

/** Marks that reorder what is seen: a name for each, so that code is read as it is. */
const REORDERING = /[\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff]/g;

/**
 * Code shows a text that cannot be changed. It lives in a shadow root: there the
 * editor adopts its style sheet, where in the page it would add a <style>
 * element, which the content security policy blocks.
 */
export class Code {
  private readonly view: EditorView;
  private readonly language = new Compartment();
  private name = "";

  constructor(host: HTMLElement, label: string, onescape: () => void) {
    const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
    root.replaceChildren();
    const parent = document.createElement("div");
    parent.style.height = "100%";
    root.append(parent);
    this.view = new EditorView({
      root,
      parent,
      state: EditorState.create({
        extensions: [
          EditorState.readOnly.of(true),
          EditorView.contentAttributes.of({ "aria-label": label, "aria-readonly": "true" }),
          EditorView.lineWrapping,
          lineNumbers(),
          foldGutter(),
          drawSelection(),
          highlightSpecialChars({ addSpecialChars: REORDERING }),
          highlightSelectionMatches(),
          search({ top: true }),
          keymap.of([
            ...searchKeymap,
            // Tab is not bound, so that it leaves the text as it does everywhere.
            { key: "Escape", run: () => (onescape(), true) },
          ]),
          syntaxHighlighting(colours),
          look,
          this.language.of([]),
        ],
      }),
    });
  }

  /** show puts a text in place of the one before; when it is the same file, what is looked at stays in sight. */
  show(name: string, text: string): void {
    const isSame = name === this.name;
    const before = this.view.state.doc;
    if (!isSame || before.toString() !== text) this.view.dispatch({ changes: change(isSame ? before.toString() : "", before.length, text) });
    if (isSame) return;
    this.name = name;
    this.view.dispatch({ selection: { anchor: 0 }, effects: this.language.reconfigure([]) });
    this.view.scrollDOM.scrollTop = 0;
    void this.highlight(name, text);
  }

  focus(): void {
    this.view.focus();
  }

  close(): void {
    this.view.destroy();
  }

  private async highlight(name: string, text: string): Promise<void> {
    const language = LanguageDescription.matchFilename(languages, name);
    if (!language || hasLongLine(text)) return;
    let support: LanguageSupport;
    try {
      support = await arrival(() => language.load());
    } catch {
      return; // it shows without colours
    }
    if (this.name === name) this.view.dispatch({ effects: this.language.reconfigure(support) });
  }
}

/** change is the one replacement that makes a text of another: it leaves what both begin and end with. */
function change(from: string, length: number, to: string): { from: number; to: number; insert: string } {
  let start = 0;
  const most = Math.min(from.length, to.length);
  while (start < most && from.charCodeAt(start) === to.charCodeAt(start)) start++;
  let end = 0;
  while (end < most - start && from.charCodeAt(from.length - 1 - end) === to.charCodeAt(to.length - 1 - end)) end++;
  return { from: start, to: length - end, insert: to.slice(start, to.length - end) };
}

function hasLongLine(text: string): boolean {
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf("\n", at);
    if ((end < 0 ? text.length : end) - at > LONG_LINE) return true;
    if (end < 0) return false;
    at = end + 1;
  }
  return false;
}
