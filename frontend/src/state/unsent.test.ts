import { describe, expect, it } from "vitest";
import { Unsent } from "./unsent.svelte";

describe("what is not sent", () => {
  it("goes when it was sent, and what was written meanwhile stays", () => {
    const unsent = new Unsent();
    unsent.write("go on", "s1");
    unsent.sent("go on", "s1");
    expect(unsent.of("s1")).toBe("");

    unsent.write("go on, and then", "s1");
    unsent.sent("go on", "s1");
    expect(unsent.of("s1")).toBe(", and then");

    unsent.write("another", "s1");
    unsent.sent("go on", "s1");
    expect(unsent.of("s1")).toBe("another");
  });

  it("is kept by session and by call", () => {
    const unsent = new Unsent();
    unsent.write("a", "s1");
    unsent.write("b", "s1", "c1");
    unsent.sent("a", "s1");
    expect([unsent.of("s1"), unsent.of("s1", "c1"), unsent.of("s2")]).toEqual(["", "b", ""]);
  });
});
