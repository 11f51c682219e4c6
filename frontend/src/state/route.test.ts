import { describe, expect, it } from "vitest";
import { href, parseRoute, type Route } from "./route.svelte";

describe("routes", () => {
  it.each<Route>([
    { at: "home" },
    { at: "new" },
    { at: "doctor" },
    { at: "session", id: "01J9" },
    { at: "session", id: "a/b #?" },
    { at: "session", id: "s1", panel: "terminal" },
    { at: "session", id: "s1", panel: "container", below: "terminal" },
    { at: "session", id: "s1", panel: "files", path: "src/a b?#%.go" },
    { at: "session", id: "s1", panel: "files", path: "/workspace/x.go", call: "c&=1" },
    { at: "session", id: "s1", call: "toolu_1" },
    { at: "session", id: "s1", panel: "browser", moment: "toolu_1" },
    { at: "panel", id: "s1", panel: "terminal" },
    { at: "panel", id: "s1", panel: "files", path: "/etc/hosts" },
  ])("%j survives its address", (r) => {
    expect(parseRoute(href(r))).toEqual(r);
  });

  it.each(["", "#", "#/", "#/s/", "#/s/%E0%A4%A", "#token=abc", "#/other"])("%j is the start", (hash) => {
    expect(parseRoute(hash)).toEqual({ at: "home" });
  });

  it("leaves out a panel that it does not know, and half a dock", () => {
    expect(parseRoute("#/s/s1/nothing")).toEqual({ at: "session", id: "s1" });
    expect(parseRoute("#/s/s1?below=terminal")).toEqual({ at: "session", id: "s1" });
    expect(parseRoute("#/s/s1/terminal?below=terminal")).toEqual({ at: "session", id: "s1", panel: "terminal" });
    expect(parseRoute("#/p/s1")).toEqual({ at: "session", id: "s1" });
  });
});
