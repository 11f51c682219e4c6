import { describe, expect, it } from "vitest";
import type { EgressDecided } from "../api/types.gen";
import { allowFlag, Egress, hostPort } from "./egress.svelte";

const decided = (over: Partial<EgressDecided>): EgressDecided => ({
  protocol: "connect", host: "example.com", port: 443, address: "93.184.216.34", allowed: true, reason: "a public address", count: 1, failed: 0, error: "",
  sent: 0, received: 0, longest: 0, first: "2026-03-10T09:00:00Z", ...over,
});
const at = (second: number): string => `2026-03-10T09:00:${String(second).padStart(2, "0")}Z`;

describe("the fold of decisions", () => {
  it("adds up equal ones, and what is told of their ends", () => {
    const e = new Egress();
    e.apply(1, at(1), decided({ count: 2 }));
    e.apply(2, at(5), decided({ count: 0, sent: 100, received: 2000 }));
    e.apply(3, at(9), decided({ count: 1, failed: 1, error: "no answer in time", address: "93.184.216.35" }));
    expect(e.list).toHaveLength(1);
    expect(e.list[0]).toMatchObject({ count: 3, sent: 100, received: 2000, failed: 1, error: "no answer in time", address: "93.184.216.35", at: at(9) });
  });

  it("counts a row once, by whichever way it comes, in any order", () => {
    const e = new Egress();
    e.apply(7, at(7), decided({ host: "later.example" }));
    e.take([
      { seq: 7, at: at(7), decided: decided({ host: "later.example" }) },
      { seq: 3, at: at(3), decided: decided({ host: "10.0.0.1", allowed: false, reason: "a private address", address: "10.0.0.1" }) },
    ]);
    e.apply(3, at(3), decided({ host: "10.0.0.1", allowed: false, reason: "a private address" }));
    expect(e.list.map((d) => [d.host, d.count])).toEqual([["later.example", 1], ["10.0.0.1", 1]]);
    expect(e.refused).toBe(1);
  });

  it("keeps an older row's place and the newer one's words", () => {
    const e = new Egress();
    e.apply(9, at(9), decided({ error: "new", failed: 1 }));
    e.apply(2, at(2), decided({ error: "old", failed: 1 }));
    expect(e.list[0]).toMatchObject({ error: "new", failed: 2, at: at(9) });
  });

  it("keeps so many, and lets the oldest go", () => {
    const e = new Egress();
    for (let i = 0; i < 520; i++) e.apply(i, new Date(i * 1000).toISOString(), decided({ port: i + 1 }));
    expect(e.list).toHaveLength(500);
    expect(e.list.at(-1)?.port).toBe(21);
  });
});

describe("allowFlag", () => {
  const refused = (host: string, address: string, reason: string) => ({ host, port: 80, address, allowed: false, reason });
  it.each([
    [refused("db.lan", "10.0.0.5", "a private address"), "--allow db.lan:80"],
    [refused("localhost", "127.0.0.1", "this machine's loopback"), "--allow localhost:80"],
    [refused("meta.internal", "169.254.169.254", "a cloud's metadata service"), "--allow 169.254.169.254:80"],
    [refused("fe80::1", "fe80::1", "a link-local address"), "--allow '[fe80::1]:80'"],
    [refused("me", "127.0.0.1", "Glovebox itself"), ""],
    [refused("0.0.0.0", "0.0.0.0", "the address of no machine"), ""],
    [refused("a b", "", "it is not a host name"), ""],
    [{ ...refused("example.com", "1.1.1.1", "a public address"), allowed: true }, ""],
  ])("%j gives %j", (d, want) => expect(allowFlag(d)).toBe(want));
  it("writes IPv6 in brackets", () => expect(hostPort("::1", 80)).toBe("[::1]:80"));
});
