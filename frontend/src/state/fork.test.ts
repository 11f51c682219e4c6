import { describe, expect, it } from "vitest";
import type { Session } from "../api/types.gen";
import { forkChoices, forkText } from "./fork";

const of = (wall: Session["wall"], value: string, adopted = false): string[] =>
  forkChoices({ wall, adopted, sandbox: { value, cause: "", observed_at: "", source: "" } } as Session).map((c) => c.value);

describe("the sandboxes of a fork", () => {
  it.each([
    ["docker", "ready", false, ["snapshot", "fresh", "share"]],
    ["docker", "unreachable", false, ["fresh", "share"]],
    ["docker", "lost", false, ["fresh"]],
    ["docker", "ready", true, ["share"]],
    ["namespace", "ready", false, ["fresh", "share"]],
    ["remote", "ready", false, ["share"]],
  ] as const)("of a %s one that is %s (found: %j) are %j", (wall, value, adopted, want) => expect(of(wall, value, adopted)).toEqual(want));

  it("says what both have in common", () => {
    expect(forkText("share", "share", "/w")).toMatch(/Both write to \/w .*common to both/);
    expect(forkText("snapshot", "copy", "/w")).toMatch(/copy of \/w.*Neither sees/);
    expect(forkText("share", "share", "")).not.toMatch(/write/);
  });
});
