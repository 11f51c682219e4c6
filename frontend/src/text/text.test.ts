import { describe, expect, it } from "vitest";
import { parseDiff } from "./diff";
import { fences } from "./fences";
import { ago, bytes, shellQuote, span, took } from "./format";
import { titleOf } from "./visible";

describe("fences", () => {
  it("splits text and code", () => {
    expect(fences("Here:\n\n```go\nx := 1\n```\nDone.")).toEqual([
      { code: false, lang: "", text: "Here:" },
      { code: true, lang: "go", text: "x := 1" },
      { code: false, lang: "", text: "Done." },
    ]);
  });
  it("keeps a fence open while its text still comes", () => {
    expect(fences("```\na\n")).toEqual([{ code: true, lang: "", text: "a\n" }]);
  });
  it("does not end a long fence at a short one", () => {
    expect(fences("````\n```\n````")).toEqual([{ code: true, lang: "", text: "```" }]);
  });
  it("leaves inline backticks alone", () => {
    expect(fences("use ```x``` here")).toEqual([{ code: false, lang: "", text: "use ```x``` here" }]);
  });
});

describe("parseDiff", () => {
  it("numbers the lines of both sides", () => {
    const got = parseDiff("--- a/x\n+++ b/x\n@@ -3,3 +3,4 @@ func\n a\n-b\n+B\n+C\n d\n\\ No newline at end of file\n");
    expect(got.map((l) => [l.kind, l.before, l.after, l.text])).toEqual([
      ["hunk", 0, 0, "@@ -3,3 +3,4 @@ func"],
      ["same", 3, 3, "a"],
      ["del", 4, 0, "b"],
      ["add", 0, 4, "B"],
      ["add", 0, 5, "C"],
      ["same", 5, 6, "d"],
      ["note", 0, 0, "No newline at end of file"],
    ]);
  });
  it("shows a removed line that looks like a header", () => {
    expect(parseDiff("@@ -1 +0,0 @@\n--- a\n")[1]).toMatchObject({ kind: "del", text: "-- a" });
  });
});

describe("titles", () => {
  it("show what cannot be seen, and end with their line", () => {
    expect(titleOf({ title: "a\u202egnp.exe\u001b[31m" })).toBe("a⟨U+202E⟩gnp.exe␛[31m");
    expect(titleOf({ title: "one\ntwo" })).toBe("one");
    expect(titleOf({ title: " \n" })).toBe("Untitled");
  });
});

describe("format", () => {
  it("writes durations", () => {
    expect([0.2e6, 38e6, 1.52e9, 12e9, 125e9].map(took)).toEqual(["<1 ms", "38 ms", "1.5 s", "12 s", "2 min 5 s"]);
    expect([0, 59_000, 3_600_000, 3_660_000, 90_000_000].map(span)).toEqual(["0 s", "59 s", "1 h", "1 h 1 min", "1 d"]);
    expect([-5, 61_000, 7_300_000].map(ago)).toEqual(["0 s", "1 min", "2 h"]);
  });
  it("writes sizes", () => {
    expect([0, 1023, 1024, 1_048_576, 2_147_483_648].map(bytes)).toEqual(["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "2.0 GiB"]);
  });
  it("quotes for a shell", () => {
    expect(["a/b-c.d", "it's", "", "$HOME"].map(shellQuote)).toEqual(["a/b-c.d", `'it'\\''s'`, "''", "'$HOME'"]);
  });
});
