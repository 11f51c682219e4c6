import { describe, expect, it } from "vitest";
import { takeToken, tokenOf, type TokenPlace } from "./token";
import { Client } from "./client";

function place(hash: string, kept = ""): TokenPlace & { shown: string[] } {
  const store = new Map(kept ? [["glovebox.token", kept]] : []);
  const shown: string[] = [];
  return {
    shown,
    location: { hash, pathname: "/", search: "" },
    history: { replaceState: (_data, _unused, url) => void shown.push(url) },
    sessionStorage: {
      getItem: (k) => store.get(k) ?? null,
      setItem: (k, v) => void store.set(k, v),
      removeItem: (k) => void store.delete(k),
    },
  };
}

describe("takeToken", () => {
  it("keeps the token and wipes it from the address", () => {
    const w = place("#token=abc123");
    expect(takeToken(w)).toBe("abc123");
    expect(w.shown).toEqual(["/"]);
    expect(w.sessionStorage.getItem("glovebox.token")).toBe("abc123");
  });
  it("leaves an address without a token alone", () => {
    const w = place("#/s/1", "kept");
    expect(takeToken(w)).toBe("kept");
    expect(w.shown).toEqual([]);
  });
  it("prefers the token of the address", () => {
    expect(takeToken(place("#token=new", "old"))).toBe("new");
  });
  it("goes on to the place behind the token", () => {
    const w = place("#token=abc&/s/1");
    takeToken(w);
    expect(w.shown).toEqual(["/#/s/1"]);
  });
  it("has none at first", () => expect(takeToken(place(""))).toBe(""));
});

describe("tokenOf", () => {
  it("takes a token or a whole URL", () => {
    expect(tokenOf("  abc123\n")).toBe("abc123");
    expect(tokenOf("http://127.0.0.1:7333/#token=abc123")).toBe("abc123");
  });
});

describe("Client", () => {
  const answer = (status: number, body: string) => {
    const calls: { url: string; init: RequestInit }[] = [];
    const client = new Client("tok", (url, init) => {
      calls.push({ url, init });
      return Promise.resolve(new Response(body, { status }));
    });
    return { client, calls };
  };
  it("sends the token and the content type", async () => {
    const { client, calls } = answer(202, "");
    await client.send("a/b", "hi");
    expect(calls[0]?.url).toBe("/api/v1/sessions/a%2Fb/messages");
    expect(calls[0]?.init.headers).toEqual({ Authorization: "Bearer tok", "Content-Type": "application/json" });
    expect(calls[0]?.init.body).toBe('{"text":"hi"}');
  });
  it("throws what the server says", async () => {
    const { client } = answer(400, '{"error":{"code":"invalid","message":"no such image","field":"spec.image"}}');
    await expect(client.about()).rejects.toMatchObject({ status: 400, code: "invalid", field: "spec.image", message: "no such image" });
  });
  it("reads again after a broken connection, and never repeats a command", async () => {
    let calls = 0;
    const client = new Client("tok", () =>
      ++calls === 1 ? Promise.reject(new TypeError("network changed")) : Promise.resolve(new Response("{}")),
    );
    await expect(client.about()).resolves.toEqual({});
    calls = 0;
    await expect(client.send("a", "hi")).rejects.toMatchObject({ status: 0, code: "unreachable" });
    expect(calls).toBe(1);
  });
  it("copes with an answer that is not the server's", async () => {
    await expect(answer(502, "<html>").client.about()).rejects.toMatchObject({ status: 502, code: "http" });
  });
});
