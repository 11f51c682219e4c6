import { describe, expect, it } from "vitest";
import { Blocks, entities, LONGEST, safeLink, target } from "./markdown";

const TEXT = "# Title\n\nOne *para*\nof text.\n\n- a\n- b\n\n  more of b\n\n```go\nx := 1\n\ny := 2\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quoted\n\nThe end, with `code`.\n";

describe("Blocks", () => {
  it("parses growing text to what it parses at once", () => {
    const growing = new Blocks();
    for (let i = 1; i <= TEXT.length; i++) growing.of(TEXT.slice(0, i), true);
    expect(growing.of(TEXT, true)).toEqual(new Blocks().of(TEXT));
  });
  it("keeps the blocks that cannot change", () => {
    const blocks = new Blocks();
    const before = blocks.of("# Title\n\nfirst\n\nsecond\n\nthird", true);
    const after = blocks.of("# Title\n\nfirst\n\nsecond\n\nthird and more", true);
    expect(after?.[0]).toBe(before?.[0]);
    expect(after?.[1]).toBe(before?.[1]);
  });
  it("starts again when the text is another one", () => {
    const blocks = new Blocks();
    blocks.of("one\n\ntwo\n\nthree", true);
    expect(blocks.of("four", true)).toEqual(new Blocks().of("four"));
  });
  it("shows a fence that is not closed as code", () => {
    expect(new Blocks().of("```js\nlet a", true)?.[0]).toMatchObject({ type: "code", lang: "js", text: "let a" });
  });
  it("gives up on what is too long or too deep, in time", () => {
    expect(new Blocks().of("x".repeat(LONGEST + 1))).toBeNull();
    const started = performance.now();
    new Blocks().of(">".repeat(20_000));
    new Blocks().of("[".repeat(20_000));
    new Blocks().of("*a ".repeat(5_000));
    expect(performance.now() - started).toBeLessThan(10_000);
  });
});

describe("links", () => {
  it("only go to the web or to a mailbox", () => {
    const refused = ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "blob:https://x/1", "/relative", "#here", "//host/x", "", "java\nscript:alert(1)"];
    expect(refused.map(safeLink)).toEqual(refused.map(() => ""));
    expect(safeLink("https://example.com/a?b")).toBe("https://example.com/a?b");
    expect(safeLink("mailto:a@example.com")).toBe("mailto:a@example.com");
  });
  it("say where they go", () => {
    expect(target("https://evil.example/x", "https://bank.example")).toBe("evil.example");
    expect(target("https://bank.example.evil.example/", "bank.example")).toBe("bank.example.evil.example");
    expect(target("https://example.com/a", "https://example.com/a")).toBe("");
    expect(target("mailto:a@example.com", "write")).toBe("a@example.com");
  });
});

describe("entities", () => {
  it("reads references and no others", () => {
    expect(entities("&lt;b&gt; &amp;amp; &#65;&#x42; &#0; &#xd800; &nope; &")).toBe("<b> &amp; AB \ufffd \ufffd &nope; &");
  });
});
