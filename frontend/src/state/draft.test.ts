import { describe, expect, it } from "vitest";
import { ApiError } from "../api/client";
import type { About, OpenRequest } from "../api/types.gen";
import { Draft, readForm, suggest } from "./draft.svelte";
import { blank } from "./request";

class Shelf {
  readonly kept = new Map<string, string>();
  getItem = (k: string): string | null => this.kept.get(k) ?? null;
  setItem = (k: string, v: string): void => void this.kept.set(k, v);
  removeItem = (k: string): void => void this.kept.delete(k);
}

const about = {
  default_wall: "docker", default_spec: { network: {} }, default_model: "demo", home: "/home/kim", data_dir: "/d", agents: [{ name: "main", description: "", tools: [] }],
  walls: [
    { wall: "docker", available: true, detail: "", fix: "", worth: "" },
    { wall: "namespace", available: false, detail: "", fix: "", worth: "" },
  ],
} as unknown as About;

describe("a draft", () => {
  it("outlives its dialog, and goes when it was opened", async () => {
    const tab = new Shelf();
    const browser = new Shelf();
    const first = new Draft(tab, browser, about);
    first.form.goal = "mend it";
    first.addMount();
    first.keep();
    const second = new Draft(tab, browser, about);
    expect(second.form.goal).toBe("mend it");
    expect(second.form.mounts).toHaveLength(1);
    second.form.model = "openai:x";
    const sent: OpenRequest[] = [];
    expect(await second.submit(about, (r) => Promise.resolve(void sent.push(r)))).toBe(true);
    expect(sent[0]?.goal).toBe("mend it");
    expect(tab.kept.size).toBe(0);
    const third = new Draft(tab, browser, about);
    expect(third.form.goal).toBe("");
    expect(third.form.model).toBe("openai:x");
  });

  it("puts a fault at the row that it is about, and keeps all that was written", async () => {
    const draft = new Draft(new Shelf(), new Shelf(), about);
    draft.form.goal = "go";
    draft.addMount();
    const row = draft.addMount();
    const mount = draft.form.mounts[1];
    if (mount) mount.source = "/x";
    const refuse = () => Promise.reject(new ApiError(400, "invalid", "mounts[0].source: is closed", "mounts[0].source"));
    expect(await draft.submit(about, refuse)).toBe(false);
    expect(draft.at(`mounts.${row}.source`)).toBe("is closed");
    expect(draft.form.goal).toBe("go");
    draft.removeMount(row);
    expect(draft.fault).toBeNull();
  });

  it("asks the server nothing while something is missing", async () => {
    const draft = new Draft(new Shelf(), new Shelf(), about);
    expect(await draft.submit(about, () => Promise.reject(new Error("asked")))).toBe(false);
    expect(draft.fault?.field).toBe("goal");
  });

  it("does not choose a wall that was used last and is gone, and says so", () => {
    const browser = new Shelf();
    browser.setItem("glovebox.choices", JSON.stringify({ wall: "namespace", model: "" }));
    const draft = new Draft(new Shelf(), browser, about);
    expect(draft.form.wall).toBe("");
    expect(draft.missed).toBe("namespace");
    browser.setItem("glovebox.choices", JSON.stringify({ wall: "local", model: 5 }));
    expect(new Draft(new Shelf(), browser, about).form).toEqual(blank());
  });

  it("forgets nothing that a person wrote when a goal is suggested", () => {
    const tab = new Shelf();
    suggest(tab, "A", ["A", "B"]);
    expect(readForm(tab.getItem("glovebox.draft"))?.goal).toBe("A");
    suggest(tab, "B", ["A", "B"]);
    expect(readForm(tab.getItem("glovebox.draft"))?.goal).toBe("B");
    tab.setItem("glovebox.draft", JSON.stringify({ goal: "mine", workspace: "/w" }));
    suggest(tab, "A", ["A", "B"]);
    expect(readForm(tab.getItem("glovebox.draft"))).toMatchObject({ goal: "mine\n\nA", workspace: "/w" });
  });
});

describe("what was kept", () => {
  it.each([null, "", "null", "5", "[", '"x"'])("%j is no draft", (text) => expect(readForm(text)).toBeNull());

  it("is taken as far as it is right", () => {
    const text = JSON.stringify({ goal: 5, wall: "cloud", network: "vpn", user: "admin", approvals: "yes", memory: "1g", mounts: [null, { source: 1, target: "" }, { source: "/a", target: "/b", mode: "rwx" }] });
    expect(readForm(text)).toEqual({ ...blank(), memory: "1g", mounts: [{ id: 1, source: "/a", target: "/b", mode: "ro" }] });
  });
});
