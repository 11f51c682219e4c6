import { describe, expect, it } from "vitest";
import { costText, tokensText } from "./usage";

const none = { input: 0, output: 0, cache_read: 0, cache_write: 0 };

describe("usage", () => {
  it.each([
    [0, ""],
    [950, "950 tokens"],
    [1_240, "1.2k tokens"],
    [48_900, "49k tokens"],
    [3_200_000, "3.2M tokens"],
  ])("%d tokens read %j", (input, want) => expect(tokensText({ ...none, input })).toBe(want));
  it("counts the cache too", () => expect(tokensText({ input: 1, output: 2, cache_read: 3, cache_write: 4 })).toBe("10 tokens"));
  it.each([
    [null, ""],
    [0, "$0.00"],
    [0.004, "<$0.01"],
    [1.239, "$1.24"],
  ])("%j dollars read %j", (usd, want) => expect(costText(usd)).toBe(want));
});
