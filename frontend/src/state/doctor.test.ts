import { describe, expect, it } from "vitest";
import type { Check } from "../api/types.gen";
import { Health } from "./doctor.svelte";
import { crumbs } from "./folders.svelte";

describe("faults", () => {
  const check = (name: string, status: string): Check => ({ name, status, detail: "", fix: "", command: "", recipe: "" });
  it("stay dismissed over a reload, until they are others", async () => {
    const kept = new Map<string, string>();
    const shelf = { getItem: (k: string) => kept.get(k) ?? null, setItem: (k: string, v: string) => void kept.set(k, v) };
    const run = (h: Health, ...checks: Check[]) => h.run(() => Promise.resolve({ ok: true, checks }));
    const first = new Health(shelf);
    await run(first, check("a", "warn"), check("b", "ok"));
    expect(first.isDismissed).toBe(false);
    first.dismiss();
    const second = new Health(shelf);
    await run(second, check("b", "ok"), check("a", "warn"));
    expect(second.isDismissed).toBe(true);
    await run(second, check("a", "fail"));
    expect(second.isDismissed).toBe(false);
  });

  it("are not what is only worth knowing", async () => {
    const h = new Health({ getItem: () => null, setItem: () => undefined });
    await h.run(() => Promise.resolve({ ok: true, checks: [check("a", "info"), check("b", "ok"), check("c", "warn")] }));
    expect(h.faults.map((c) => c.name)).toEqual(["c"]);
  });

  it("may be mended by an image", async () => {
    const h = new Health({ getItem: () => null, setItem: () => undefined });
    expect(h.mends("standard")).toBe(false);
    await h.run(() => Promise.resolve({ ok: true, checks: [{ ...check("standard image", "info"), recipe: "standard" }, check("b", "ok")] }));
    expect([h.mends("standard"), h.mends("tiny")]).toEqual([true, false]);
  });

  it("that cannot be read keep what was known", async () => {
    const h = new Health({ getItem: () => null, setItem: () => undefined });
    await h.run(() => Promise.resolve({ ok: true, checks: [check("a", "warn")] }));
    await expect(h.run(() => Promise.reject(new Error("gone")))).rejects.toThrow("gone");
    expect(h.error).toBe("gone");
    expect(h.faults).toHaveLength(1);
    expect(h.busy).toBe(false);
  });
});

it.each([
  ["/", ["/"]],
  ["/home/kim", ["/", "home:/home", "kim:/home/kim"]],
])("the steps of %j are %j", (path, want) => {
  expect(crumbs(path).map((c) => (c.name === "/" ? "/" : `${c.name}:${c.path}`))).toEqual(want);
});
