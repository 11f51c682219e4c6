import { describe, expect, it } from "vitest";
import { KEYMAP, keyName, reaches, Sequence, spoken } from "./keys.svelte";

const plain = { ctrlKey: false, metaKey: false, altKey: false };

describe("keyName", () => {
  it.each([
    [{ ...plain, key: "j" }, "J"],
    [{ ...plain, key: "?" }, "?"],
    [{ ...plain, key: "k", ctrlKey: true }, "Mod+K"],
    [{ ...plain, key: "k", metaKey: true }, "Mod+K"],
    [{ ...plain, key: "Escape" }, "Esc"],
    [{ ...plain, key: "g", altKey: true }, ""],
    [{ key: "]", ctrlKey: true, metaKey: false, altKey: true }, "Mod+]"],
  ])("%j is %j", (e, want) => expect(keyName(e)).toBe(want));
});

describe("Sequence", () => {
  it("takes two keys one after the other, and forgets the first one", () => {
    const s = new Sequence();
    expect(s.press("G", 0)).toBe("");
    expect(s.press("S", 900)).toBe("list");
    expect(s.press("S", 950)).toBe("");
    expect(s.press("G", 1000)).toBe("");
    expect(s.press("H", 2100)).toBe("");
  });
  it("stops only on two quick presses of Esc", () => {
    const s = new Sequence();
    expect(s.press("Esc", 0)).toBe("");
    expect(s.press("Esc", 700)).toBe("");
    expect(s.press("Esc", 1200)).toBe("stop");
  });
  it("lets a key that ends nothing start anew", () => {
    const s = new Sequence();
    s.press("V", 0);
    expect(s.press("J", 10)).toBe("next");
    expect(s.press("C", 20)).toBe("");
  });
});

describe("the keymap", () => {
  it("has no keys twice, and none that is the start of others", () => {
    const all = Object.values(KEYMAP).map((b) => b.keys);
    expect(new Set(all).size).toBe(all.length);
    for (const k of all) expect(all.filter((o) => o !== k && o.startsWith(`${k} `))).toEqual([]);
  });
  it("leaves a terminal all its keys and a field what is typed", () => {
    expect(reaches("J", "field")).toBe(false);
    expect(reaches("Mod+K", "field")).toBe(true);
    expect(reaches("Esc", "field")).toBe(true);
    expect(reaches("Mod+K", "terminal")).toBe(false);
    expect(reaches("Esc", "terminal")).toBe(false);
  });
  it("is written for the keyboard at hand", () => {
    expect(spoken("Mod+K", true)).toEqual(["⌘", "K"]);
    expect(spoken("G S", false)).toEqual(["G", "S"]);
  });
});
