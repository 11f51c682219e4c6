import { describe, expect, it } from "vitest";
import { Places } from "./places";

function storage(text: string | null = null): Pick<Storage, "getItem" | "setItem"> {
  return { getItem: () => text, setItem: (_, value) => void (text = value) };
}

describe("Places", () => {
  it("remembers a place over a restart", () => {
    const s = storage();
    new Places(s).keep("s1", { at: "c4", offset: -12, cards: { c4: true } });
    expect(new Places(s).of("s1")).toEqual({ at: "c4", offset: -12, cards: { c4: true } });
    expect(new Places(s).of("s2")).toEqual({ at: "", offset: 0, cards: {} });
  });
  it("forgets the oldest", () => {
    const s = storage();
    const places = new Places(s);
    for (let i = 0; i < 60; i++) places.keep(`s${i}`, { at: `c${i}`, offset: 0, cards: {} });
    expect(places.of("s0").at).toBe("");
    expect(places.of("s59").at).toBe("c59");
    const cards = Object.fromEntries(Array.from({ length: 150 }, (_, i) => [`c${i}`, true]));
    places.keep("s1", { at: "", offset: 0, cards });
    expect(Object.keys(places.of("s1").cards)).toHaveLength(100);
  });
  it("reads nothing from what it did not write", () => {
    for (const text of ["{", "3", '[3, ["s1"], null]']) expect(new Places(storage(text)).of("s1").at).toBe("");
  });
});
