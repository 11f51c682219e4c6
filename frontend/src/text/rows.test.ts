import { describe, expect, it } from "vitest";
import { numbered, searched } from "./rows";

describe("numbered", () => {
  it("reads lines with their numbers, and notes", () => {
    expect(numbered("    30\tfunc f() {\n    31\t\n    32\t\tx\t(y)\n\n(showing lines 30–32 of 212; use offset=33 to go on)")).toEqual({
      lines: [{ n: 30, text: "func f() {" }, { n: 31, text: "" }, { n: 32, text: "\tx\t(y)" }],
      notes: ["showing lines 30–32 of 212; use offset=33 to go on"],
    });
  });
  it("reads an empty file", () => {
    expect(numbered("(the file exists and is empty)")).toEqual({ lines: [], notes: ["the file exists and is empty"] });
  });
});

describe("searched", () => {
  it("groups lines by file, with context", () => {
    const got = searched("a.go-1-package a\na.go:2:x := 1:2\n--\nb/c-3-d.go:7:- y\nb/c-3-d.go-8-z:9:z\n(cut after 3 lines; there are more: use offset=3 to go on)", "content", true);
    expect(got.files).toEqual([
      { path: "a.go", rows: [{ line: "1", text: "package a", context: true }, { line: "2", text: "x := 1:2", context: false }] },
      { path: "b/c-3-d.go", rows: [{ line: "7", text: "- y", context: false }, { line: "8", text: "z:9:z", context: true }] },
    ]);
    expect(got.notes).toEqual(["cut after 3 lines; there are more: use offset=3 to go on"]);
  });
  it("keeps to the path of the row before", () => {
    expect(searched("x:1:y.go\n", "files_with_matches", true).files.map((f) => f.path)).toEqual(["x:1:y.go"]);
    expect(searched("a:2:b\na:3:c", "content", true).files).toHaveLength(1);
  });
  it("reads rows without numbers, files and counts", () => {
    expect(searched("a.go:x\na.go-y", "content", false).files).toEqual([
      { path: "a.go", rows: [{ line: "", text: "x", context: false }, { line: "", text: "y", context: true }] },
    ]);
    expect(searched("a.go\nb.go", "glob", true).files.map((f) => f.path)).toEqual(["a.go", "b.go"]);
    expect(searched("a.go:12", "count", true).files).toEqual([{ path: "a.go", rows: [{ line: "", text: "12", context: false }] }]);
    expect(searched("No matches found. Hidden files …", "content", true)).toEqual({ files: [], notes: ["No matches found. Hidden files …"] });
  });
});
