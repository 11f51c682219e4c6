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
    expect(calls[0]?.init.headers).toEqual({
      Authorization: "Bearer tok",
      "Content-Type": "application/json",
      "Idempotency-Key": expect.stringMatching(/^[0-9a-f]{32}$/) as string,
    });
    expect(calls[0]?.init.body).toBe('{"text":"hi"}');
  });
  it("throws what the server says", async () => {
    const { client } = answer(400, '{"error":{"code":"invalid","message":"no such image","field":"spec.image"}}');
    await expect(client.about()).rejects.toMatchObject({ status: 400, code: "invalid", field: "spec.image", message: "no such image" });
  });
  it("asks again after a broken connection, with a command's own key", async () => {
    let keys: (string | undefined)[] = [];
    const broken = (times: number): Client => {
      keys = [];
      return new Client("tok", (_, init) => {
        keys.push((init.headers as Record<string, string>)["Idempotency-Key"]);
        return keys.length <= times ? Promise.reject(new TypeError("network changed")) : Promise.resolve(new Response("{}"));
      });
    };
    await expect(broken(1).about()).resolves.toEqual({});
    expect(keys).toEqual([undefined, undefined]);

    const client = broken(1);
    await client.send("a", "hi");
    await client.send("a", "hi");
    expect(keys).toHaveLength(3);
    expect(keys[1]).toBe(keys[0]);
    expect(keys[2]).not.toBe(keys[0]);

    await expect(broken(2).send("a", "hi")).rejects.toMatchObject({ status: 0, code: "unreachable" });
    expect(keys).toHaveLength(2);
  });
  it("asks again when an answer breaks off, and says so when that does not help", async () => {
    const half = (): Response =>
      new Response(
        new ReadableStream({
          start: (c) => {
            c.enqueue(new TextEncoder().encode("{"));
            c.error(new TypeError("network changed"));
          },
        }),
      );
    let calls = 0;
    const once = new Client("tok", () => Promise.resolve(++calls === 1 ? half() : new Response("{}")));
    await expect(once.send("a", "hi")).resolves.toEqual({});
    expect(calls).toBe(2);
    const always = new Client("tok", () => Promise.resolve(half()));
    await expect(always.raw("a", "/f")).rejects.toMatchObject({ status: 0, message: "The server's answer broke off." });
  });
  it("copes with an answer that is not the server's", async () => {
    await expect(answer(502, "<html>").client.about()).rejects.toMatchObject({ status: 502, code: "http" });
  });
});
