import { describe, expect, it } from "vitest";
import { found, kindOf, pieces, rowsOf } from "./outline";

const node = (depth: number, role: string, name = "", over: { value?: string; level?: number; states?: string[] } = {}) => ({ depth, role, name, ...over });

const page = [
  node(0, "RootWebArea", "Shop", { states: ["focused"] }),
  node(1, "banner"),
  node(2, "heading", "Your order", { level: 1 }),
  node(1, "paragraph"),
  node(2, "text", "Two things to pay."),
  node(1, "list"),
  node(2, "listitem"),
  node(3, "ListMarker", "1. "),
  node(3, "link", "Red shoes"),
  node(2, "listitem"),
  node(3, "ListMarker", "2. "),
  node(3, "text", "A hat"),
  node(1, "textbox", "Name", { value: "Kim", states: ["required"] }),
  node(2, "generic"),
  node(3, "text", "Kim"),
];

describe("rowsOf", () => {
  it("leaves out what would be empty lines, and lifts what is in them", () => {
    expect(rowsOf(page).map((r) => `${"  ".repeat(r.depth)}${[r.mark, r.kind, r.name].filter(Boolean).join(" ")}`)).toEqual([
      "page Shop", "  header", "    heading Your order", "  Two things to pay.", "  list", "    1. link Red shoes", "    2. A hat", "  field Name",
    ]);
  });

  it("keeps the level of headings, the values and states of fields, and counts items", () => {
    const rows = rowsOf(page);
    expect(rows.find((r) => r.name === "Your order")?.heading).toBe(1);
    expect(rows.find((r) => r.kind === "list")?.value).toBe("2 items");
    expect(rows.find((r) => r.kind === "field")).toMatchObject({ value: "Kim", states: ["required"] });
    expect(rows[0]?.states).toEqual([]);
  });
});

describe("found", () => {
  it("looks at kinds, names and values, whatever their case", () => {
    const rows = rowsOf(page);
    expect(found(rows, "RED")).toEqual([5]);
    expect(found(rows, "kim").map((i) => rows[i]?.kind)).toEqual(["field"]);
    expect(found(rows, "link")).toEqual([5]);
    expect(found(rows, "  ")).toEqual([]);
  });
});

describe("pieces", () => {
  it("cuts out what matches", () => {
    expect(pieces("Red and red", "red")).toEqual([{ text: "Red", hit: true }, { text: " and ", hit: false }, { text: "red", hit: true }]);
    expect(pieces("nothing", "x")).toEqual([{ text: "nothing", hit: false }]);
    expect(pieces("İstanbul", "stan")).toEqual([{ text: "İstanbul", hit: false }]);
  });
});

describe("kindOf", () => {
  it("says roles as people do", () => {
    expect(["img", "textbox", "StaticText", "TabList", "button"].map(kindOf)).toEqual(["picture", "field", "", "tab list", "button"]);
  });
});
