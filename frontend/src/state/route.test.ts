import { describe, expect, it } from "vitest";
import { href, parseRoute, type Route } from "./route.svelte";

describe("routes", () => {
  it.each<Route>([{ at: "home" }, { at: "session", id: "01J9" }, { at: "session", id: "a/b #?" }])("%j survives its address", (r) => {
    expect(parseRoute(href(r))).toEqual(r);
  });
  it.each(["", "#", "#/", "#/s/", "#/s/%E0%A4%A", "#token=abc", "#/other"])("%j is the start", (hash) => {
    expect(parseRoute(hash)).toEqual({ at: "home" });
  });
});
