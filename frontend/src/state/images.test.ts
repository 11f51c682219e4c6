import { describe, expect, it } from "vitest";
import type { Client } from "../api/client";
import type { Build, ImageInfo } from "../api/types.gen";
import { findImage, fullRef, Images, pick, STANDARD, TINY } from "./images.svelte";

const image = (ref: string, id = "0123456789ab", ours = false): ImageInfo => ({ ref, id, size: 1, created_at: "", ours, session_id: "" });

describe("references", () => {
  it.each([
    ["debian", "docker.io/library/debian:latest"],
    [" debian:12 ", "docker.io/library/debian:12"],
    ["kim/app", "docker.io/kim/app:latest"],
    ["docker.io/debian", "docker.io/library/debian:latest"],
    ["index.docker.io/library/debian", "docker.io/library/debian:latest"],
    ["localhost/app:1", "localhost/app:1"],
    ["registry:5000/app", "registry:5000/app:latest"],
    ["ghcr.io/a/b@sha256:00", "ghcr.io/a/b@sha256:00"],
  ])("%j is %j", (ref, full) => expect(fullRef(ref)).toBe(full));

  const images = [image("debian:12-slim", "aaaabbbbcccc"), image("node:latest", "ddddeeeeffff")];
  it.each([
    ["node", "node:latest"],
    ["docker.io/library/node", "node:latest"],
    ["debian", undefined],
    ["debian:12-slim", "debian:12-slim"],
    ["aaaa", "debian:12-slim"],
    ["sha256:ddddeeeeffff00112233", "node:latest"],
    ["aaa", undefined],
    ["", undefined],
    ["ddddeeeeffff; rm", undefined],
  ])("%j finds %j", (ref, found) => expect(findImage(ref, images)?.ref).toBe(found));

  it("shows the default first, then ours, and searches by every word", () => {
    const all = [image("b:1"), image("glovebox/x:1", "1", true), image("a:1")];
    expect(pick(all, "", "a:1").map((i) => i.ref)).toEqual(["a:1", "glovebox/x:1", "b:1"]);
    expect(pick(all, "BOX 1", "").map((i) => i.ref)).toEqual(["glovebox/x:1"]);
  });
});

describe("recipes", () => {
  it("are those of this version's images, and say which is lacking", async () => {
    const recipes = [{ name: STANDARD, ref: "glovebox/sandbox:0.1", there: false }, { name: TINY, ref: "glovebox/tiny:0.1", there: true }];
    let error = "";
    const images = new Images(() => ({ images: () => Promise.resolve({ default: "", recipes, images: [], builds: [], error }) }) as unknown as Client);
    expect(images.lacks(STANDARD)).toBe(false); // nobody has looked yet
    await images.load();
    expect([images.lacks(STANDARD), images.lacks(TINY)]).toEqual([true, false]);
    expect(images.recipe("docker.io/glovebox/tiny:0.1")?.name).toBe(TINY);
    expect(images.recipe("glovebox/tinyish:0.1")).toBe(undefined);
    error = "no engine";
    await images.load();
    expect(images.lacks(STANDARD)).toBe(false); // nobody knows
  });
});

describe("builds", () => {
  const build = (change: Partial<Build>): Build => ({ kind: "build", image: "tiny", ref: "glovebox/tiny:1", state: "running", step: "", log: [], dropped: 0, error: "", started_at: "1", ended_at: null, detail: "", bytes: 0, total: 0, bytes_per_second: 0, ...change });

  it("end once, also when the answer comes after the frame", async () => {
    const images = new Images(() => ({
      build: () => {
        images.take({ type: "build", build: build({ state: "done", ended_at: "2" }) });
        return Promise.resolve(build({}));
      },
      images: () => Promise.resolve({ default: "glovebox/tiny:1", images: [image("glovebox/tiny:1")], builds: [], error: "" }),
    }) as unknown as Client);
    expect((await images.made("tiny")).state).toBe("done");
    expect(images.builds.tiny?.state).toBe("done");
    expect(images.isBuilding).toBe(false);
  });

  it("that end while nobody hears are found in the list", async () => {
    const images = new Images(() => ({
      build: () => Promise.resolve(build({})),
      images: () => Promise.resolve({ default: "", images: [], builds: [build({ state: "failed", error: "no room", ended_at: "2" })], error: "" }),
    }) as unknown as Client);
    const made = images.made("tiny");
    await Promise.resolve();
    await images.load();
    expect((await made).error).toBe("no room");
  });

  it("that are refused say why", async () => {
    const images = new Images(() => ({ build: () => Promise.reject(new Error("no engine")) }) as unknown as Client);
    await expect(images.made("tiny")).rejects.toThrow("no engine");
    expect(images.refused.tiny).toBe("no engine");
  });
});
