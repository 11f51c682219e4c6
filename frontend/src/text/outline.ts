import type { BrowserOutline } from "../api/types.gen";

type Node = NonNullable<BrowserOutline["nodes"]>[number];

/** Row is one line of a page's text twin. */
export interface Row {
  /** depth among the rows. */
  depth: number;
  /** kind is what it is, in a word; "" of plain text. */
  kind: string;
  /** heading is its level, 1 to 6; 0 when it is none. */
  heading: number;
  /** mark stands before an item of a list. */
  mark: string;
  name: string;
  value: string;
  states: string[];
}

/** Roles whose own word is not what people say. */
const kinds: Record<string, string> = {
  RootWebArea: "page", Iframe: "frame", IframePresentational: "frame", img: "picture", image: "picture", SvgRoot: "picture", graphic: "picture",
  textbox: "field", searchbox: "search field", combobox: "choice", ComboBoxMenuButton: "choice", ComboBoxSelect: "choice", spinbutton: "number field",
  banner: "header", contentinfo: "footer", complementary: "aside", LabelText: "label", Legend: "label", figcaption: "caption", Figcaption: "caption",
  gridcell: "cell", columnheader: "column", rowheader: "row header", PluginObject: "plugin", EmbeddedObject: "plugin", DisclosureTriangle: "unfolds", alertdialog: "dialog",
};

/** Roles that say nothing beside the text in them. */
const plain = new Set(["text", "StaticText", "paragraph", "generic", "listitem", "ListMarker", "strong", "emphasis", "mark", "code", "LineBreak", "Section", "LayoutTable", "LayoutTableRow", "LayoutTableCell", "rowgroup"]);

const levels = [1, 2, 3, 4, 5, 6];

/** kindOf says in a word what a role is. */
export function kindOf(role: string): string {
  if (plain.has(role)) return "";
  return kinds[role] ?? role.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
}

/**
 * rowsOf makes an outline the lines of a text. Nodes that would be empty lines
 * are left out, and what is in them moves up; the items of a list are marked and counted.
 */
export function rowsOf(nodes: readonly Node[]): Row[] {
  const rows: Row[] = [];
  /** The nodes that the present one is in: how deep each was, and its row if it has one. */
  const around: { depth: number; role: string; value: string; row: Row | null; items: number }[] = [];
  let mark = "";
  for (const n of nodes) {
    while (around.length > 0 && (around.at(-1)?.depth ?? 0) >= n.depth) around.pop();
    const parent = around.findLast((a) => a.row !== null);
    if (n.role === "listitem") {
      mark = "•";
      const list = around.findLast((a) => a.role === "list");
      if (list?.row) list.row.value = `${++list.items} item${list.items === 1 ? "" : "s"}`;
    }
    if (n.role === "ListMarker") mark = n.name.trim() || mark;
    const kind = kindOf(n.role);
    const states = (n.states ?? []).filter((s) => s !== "focused" || n.role !== "RootWebArea");
    const isRepeat = kind === "" && parent !== undefined && n.name !== "" && n.name === parent.value;
    const isKept = n.role !== "ListMarker" && !isRepeat && (kind !== "" || n.name !== "");
    const row: Row | null = isKept
      ? {
          depth: around.reduce((d, a) => d + (a.row ? 1 : 0), 0),
          kind,
          heading: n.role === "heading" ? (levels.find((l) => l === n.level) ?? 2) : 0,
          mark,
          name: n.name,
          value: n.value ?? "",
          states,
        }
      : null;
    if (row) {
      rows.push(row);
      mark = "";
    }
    around.push({ depth: n.depth, role: n.role, value: n.value ?? "", row, items: 0 });
  }
  return rows;
}

/** found returns the numbers of the rows that have all of a text in them, whatever its case. */
export function found(rows: readonly Row[], query: string): number[] {
  const wanted = query.trim().toLowerCase();
  if (wanted === "") return [];
  return rows.flatMap((r, i) => (`${r.kind} ${r.name} ${r.value}`.toLowerCase().includes(wanted) ? [i] : []));
}

/** pieces cuts a text into what matches a query and what does not. */
export function pieces(text: string, query: string): { text: string; hit: boolean }[] {
  const wanted = query.trim().toLowerCase();
  const lower = text.toLowerCase();
  // A letter whose small form is longer would shift what is cut.
  if (wanted === "" || lower.length !== text.length) return [{ text, hit: false }];
  const out: { text: string; hit: boolean }[] = [];
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
    if (at > from) out.push({ text: text.slice(from, at), hit: false });
    from = at + wanted.length;
    out.push({ text: text.slice(at, from), hit: true });
  }
  if (from < text.length || out.length === 0) out.push({ text: text.slice(from), hit: false });
  return out;
}
