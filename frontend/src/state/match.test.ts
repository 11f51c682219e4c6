import { describe, expect, it } from "vitest";
import { match, pieces } from "./match";

function best(query: string, texts: string[]): string | undefined {
  return texts
    .map((text) => ({ text, score: match(query, text)?.score ?? -Infinity }))
    .filter((m) => m.score > -Infinity)
    .sort((a, b) => b.score - a.score)[0]?.text;
}

describe("match", () => {
  it.each([
    ["term", ["Determine the cause", "Show the terminal"], "Show the terminal"],
    ["st", ["Rest", "Stop the turn"], "Stop the turn"],
    ["sa", ["Unsafe", "Stop all"], "Stop all"],
    ["re pro", ["Release and stop", "Re-provision"], "Re-provision"],
    ["thd", ["Theme: light", "Theme: dark"], "Theme: dark"],
    ["xyz", ["Stop"], undefined],
  ])("%j of %j finds %j", (query, texts, want) => expect(best(query, texts)).toBe(want));

  it("lets everything through for nothing", () => {
    expect(match("", "any")).not.toBeNull();
    expect(match(" ", "any")?.at).toEqual([]);
  });
  it("finds a word whose letters came before in another", () => {
    expect(match("parser", "Make the tests of the parser pass")).not.toBeNull();
  });
});

describe("pieces", () => {
  it("marks what matched", () => {
    expect(pieces("Stop all", [0, 5])).toEqual([
      { text: "S", hit: true },
      { text: "top ", hit: false },
      { text: "a", hit: true },
      { text: "ll", hit: false },
    ]);
  });
});
