// The engine of the canned server: containers of every owner and state, and what can be done with them.
import { createHash } from "node:crypto";
import { ago, stamp } from "./clock.mjs";
import { fault } from "./fault.mjs";

const idOf = (name) => createHash("sha256").update(name).digest("hex");

function container(name, image, over = {}) {
  const { state = "ready", cause = "", ...rest } = over;
  const id = over.id ?? idOf(name);
  return {
    id, short_id: id.slice(0, 12), name, image, owner: "stranger", session_id: "", sessions: [], kept: false,
    condition: { value: state, cause, observed_at: stamp(), source: "engine" }, ports: [], network: "open", created_at: ago(86_400), ...rest,
  };
}

export class Engine {
  error = "";
  endpoint = "unix:///var/run/docker.sock";
  why = "the default socket";
  watchers = new Set();
  seenAt = stamp();

  /** hooks: open makes a session in a container; change changes one; find returns one. */
  constructor(sessions, hooks) {
    this.hooks = hooks;
    this.sessions = sessions;
    const own = (s, over) => container(`glovebox-i1-${s.id}-1`, s.image, { id: `${s.short_id}9b5f0a417d22c6`, owner: "session", session_id: s.id, sessions: [s.id], network: "none", ...over });
    const of = (id) => sessions.find((s) => s.id === id);
    this.list = sessions.length === 0 ? [] : [
      own(of("s1"), { created_at: ago(860) }),
      own(of("s2"), { created_at: ago(1850) }),
      own(of("s3"), { created_at: ago(6900), state: "stopped", cause: "out of memory" }),
      container("glovebox-i1-s9-1", "glovebox/tiny:0.1", { owner: "orphan", created_at: ago(400_000), state: "stopped", cause: "exited", network: "none" }),
      container("shop-web-1", "registry.example.com/shop/storefront:2026.05.1-alpine-with-a-long-tag", { ports: ["127.0.0.1:8443->443/tcp", "0.0.0.0:8080->80/tcp", "9000/tcp"], created_at: ago(200_000) }),
      container("shop-db-1", "postgres:16", { ports: ["127.0.0.1:5432->5432/tcp"], created_at: ago(200_000) }),
      container("migrate", "registry.example.com/shop/migrate:1", { state: "stopped", cause: "exited", created_at: ago(190_000) }),
      container("profiler", "debian:12", { state: "paused", created_at: ago(3_000) }),
      container("glovebox-i7-4b-1", "node:22", { owner: "instance", network: "none", created_at: ago(9_000) }),
    ];
  }

  seen() {
    if (!this.error) {
      this.seenAt = stamp();
      for (const c of this.list) {
        c.condition.observed_at = this.seenAt;
        // Who kept it may have taken it up again.
        if (c.kept) c.kept = this.sessions.find((s) => s.id === c.session_id)?.sandbox.value === "detached";
      }
    }
    return { endpoint: this.endpoint, why: this.why, containers: this.list, observed_at: this.seenAt, error: this.error };
  }

  /** tell sends the list to those who watch it. */
  tell() {
    for (const send of this.watchers) send({ type: "containers", containers: this.seen() });
  }

  of(name) {
    return this.list.find((c) => c.id === name || c.short_id === name || c.name === name);
  }

  answer(method, path, query, body) {
    if (path === "/containers") return [200, this.seen()];
    const [, name, verb] = /^\/containers\/([^/]+)\/(\w+)$/.exec(path) ?? [];
    if (!verb) return undefined;
    const c = this.of(decodeURIComponent(name));
    if (this.error) return fault(503, "unreachable", this.error);
    if (!c) return fault(404, "sandbox_lost", "there is no such container");
    if (verb === "logs") return [200, { text: `${c.name} listens on port 80\nGET / 200\nGET /\u001b[31mhealth\u001b[0m 200\n`, at: stamp() }];
    const to = (value, cause = "") => (c.condition = { ...c.condition, value, cause });
    if (verb === "attach") {
      if (c.condition.value !== "ready") return fault(409, "sandbox_stopped", `${c.name} is ${c.condition.value}: start it first`);
      const id = this.hooks.open({ title: body.title || c.name, adopted: true, image: c.image, network: c.network, short_id: c.short_id, ref: `docker://local#${c.id}+g1`, workspace: "" });
      c.sessions = [...c.sessions, id];
      c.owner = "session";
      this.tell();
      return [202, { session_id: id }];
    }
    if (verb === "start") to("ready");
    if (verb === "stop") to("stopped", "by hand");
    if (verb === "release") {
      for (const id of c.sessions) this.hooks.change(id, { sandbox: { value: body.how === "keep" ? "detached" : body.how === "stop" ? "stopped" : "released", cause: "", observed_at: stamp(), source: "ledger" } });
      if (body.how === "stop") to("stopped", "by hand");
      else if (body.how === "keep" && c.session_id) c.kept = true;
      else if (!(c.session_id || c.owner === "orphan")) Object.assign(c, { sessions: [], owner: "stranger" });
      else this.list = this.list.filter((o) => o !== c);
    }
    this.tell();
    return [202, {}];
  }
}

const decided = (over) => ({
  protocol: "connect", host: "", port: 443, address: "", allowed: true, reason: "a public address", count: 1, failed: 0, error: "", sent: 0, received: 0, longest: 0, first: stamp(), ...over,
});

/** What the first session asked of the network. */
export const egress = [
  decided({ host: "registry.npmjs.org", address: "104.16.3.35", count: 41, sent: 38_400, received: 18_240_000 }),
  decided({ host: "db.lan", port: 5432, address: "10.20.0.5", allowed: false, reason: "a private address", count: 3 }),
  decided({ host: "metadata.google.internal", port: 80, protocol: "http", address: "169.254.169.254", allowed: false, reason: "a cloud's metadata service" }),
  decided({ host: "registry.lan", port: 5000, address: "10.20.0.9", reason: "allowed by registry.lan:5000", sent: 900, received: 42_000 }),
  decided({ host: "nowhere.invalid", port: 443, reason: "the name did not resolve", failed: 1, error: "no such host" }),
  decided({ host: "127.0.0.1", port: 7333, address: "127.0.0.1", allowed: false, reason: "Glovebox itself", protocol: "socks5" }),
];
