// A server that speaks the API with a canned story, to look at the UI without an engine:
//   node e2e/mock.mjs [PORT]      then open the URL that it prints
// It serves dist with the content security policy of the real server.
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { WebSocketServer } from "ws";
import { stamp } from "./clock.mjs";
import { Engine } from "./engine.mjs";
import { fault } from "./fault.mjs";
import { Machine } from "./machine.mjs";
import { MockBrowser } from "./mockbrowser.mjs";
import { MockRecording } from "./mockrecording.mjs";
import { Place } from "./place.mjs";
import { container, more, sessions, story } from "./story.mjs";

const DIST = process.env.DIST ?? fileURLToPath(new URL("../dist/", import.meta.url));
export const TOKEN = "c0ffee";
const csp = (scripts = "") =>
  `default-src 'none'; script-src 'self'${scripts}; style-src 'self'; img-src 'self' blob:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'`;
/** own gives the sources of the scripts that stand in a page itself. */
const own = (page) => [...page.toString().matchAll(/<script>(.*?)<\/script>/gs)].map((m) => ` 'sha256-${createHash("sha256").update(m[1]).digest("base64")}'`).join("");
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

/** breakOff answers with less than it says it will. */
const breakOff = (req, res, body) => void res.writeHead(200, { "Content-Length": Buffer.byteLength(body) }).write(body.slice(0, 1), () => req.socket.destroy());

/** start serves on a loopback port; what it returns can play on. */
export async function start(port = 0, { empty = false, broken = false, extra = 0, bare = false, untiny = false, unbuilt = false } = {}) {
  const list = empty ? [] : structuredClone([...sessions, ...more(extra)]);
  const logs = new Map(list.map((s) => [s.id, story(s)]));
  const places = new Map();
  const place = (id) => places.get(id) ?? places.set(id, new Place()).get(id);
  const browsers = new Map();
  const browser = (id) => browsers.get(id) ?? browsers.set(id, new MockBrowser(list.find((s) => s.id === id) ?? { id })).get(id);
  const recordings = new Map();
  const recording = (id) => recordings.get(id) ?? recordings.set(id, new MockRecording({ id })).get(id);
  const posts = [];
  const machine = new Machine({ bare, untiny, unbuilt, broken }, (f) => broadcast(f));
  let seq = 100_000;
  const engine = new Engine(list.filter((s) => /^s\d$/.test(s.id)), { open: (over) => opened(over), change: (id, patch) => api.change(id, patch) });
  const opened = (over) => {
    const s = { ...structuredClone(sessions[0]), id: `new${++seq}`, status: "idle", created_at: stamp(), updated_at: stamp(), ...over };
    s.sandbox = { ...s.sandbox, observed_at: stamp() };
    list.push(s);
    logs.set(s.id, []);
    broadcast({ type: "session", session: s });
    return s.id;
  };
  const works = new Map();
  const losses = [];
  const loses = (path) => {
    const loss = losses.find((l) => l.left > 0 && l.match.test(path));
    if (loss) loss.left--;
    return loss !== undefined;
  };
  const named = new Map();

  const server = createServer(async (req, res) => {
    const url = new URL(req.url, "http://x");
    let answered = () => undefined;
    const json = (status, body) => {
      answered([status, body]);
      const text = JSON.stringify(body);
      if (loses(url.pathname)) return breakOff(req, res, text);
      res.writeHead(status, { "Content-Type": "application/json" });
      res.end(text);
    };
    if (!url.pathname.startsWith("/api/")) {
      const path = normalize(url.pathname === "/" ? "index.html" : url.pathname.slice(1));
      try {
        const body = await readFile(join(DIST, path));
        if (loses(path)) return breakOff(req, res, body);
        const scripts = path.endsWith(".html") ? own(body) : "";
        res.writeHead(200, { "Content-Type": TYPES[extname(path)] ?? "application/octet-stream", "Content-Security-Policy": csp(scripts) });
        res.end(body);
      } catch {
        res.writeHead(404).end();
      }
      return;
    }
    if (req.headers.authorization !== `Bearer ${TOKEN}`) return json(...fault(401, "unauthorized", "no token"));
    const key = req.headers["idempotency-key"];
    if (key && named.has(key)) return json(...(await named.get(key)));
    if (key) named.set(key, new Promise((resolve) => (answered = resolve)));
    let body = "";
    for await (const chunk of req) body += chunk;
    if (req.method !== "GET") posts.push({ path: url.pathname, body: body ? JSON.parse(body) : null });
    const path = url.pathname.replace("/api/v1", "");
    const known = engine.answer(req.method, path, url.searchParams, body && JSON.parse(body)) ?? machine.answer(req.method, path, url.searchParams, body && JSON.parse(body));
    if (known) return json(...known);
    if (path === "/sessions" && req.method === "GET") return json(200, list);
    if (path === "/sessions") {
      const r = JSON.parse(body);
      if (r.workspace && !r.workspace.startsWith("/")) return json(...fault(400, "invalid", `${r.workspace} is not absolute`, "workspace"));
      if (r.spec.image?.includes(" ")) return json(...fault(400, "invalid", `"${r.spec.image}" is not the name of an image`, "spec.image"));
      if (r.spec.resources?.memory === "1") return json(...fault(400, "invalid", '"1" is less than 16m, the least a sandbox can run with', "spec.resources.memory"));
      const mount = (r.spec.mounts ?? []).findIndex((m) => m.source.includes(".ssh"));
      if (mount >= 0) return json(...fault(400, "invalid", `${r.spec.mounts[mount].source} is never mounted`, `spec.mounts[${mount}].source`));
      const bad = (r.spec.network.allow ?? []).findIndex((a) => a.includes("//"));
      if (bad >= 0) return json(...fault(400, "invalid", `spec.network.allow[${bad}]: "${r.spec.network.allow[bad]}" is not HOST[:PORT]; a host is a name, *.DOMAIN, an address or a network`, `spec.network.allow[${bad}]`));
      if (r.spec.base_url?.includes("silent")) return json(...fault(503, "unreachable", `${r.spec.base_url} does not answer`));
      const away = r.spec.wall === "remote" ? { wall: "remote", image: "", network: "open", workspace: "", status: "idle" } : { status: "running" };
      return json(202, { session_id: opened({ title: r.title || r.goal.split("\n")[0], goal: r.goal, model: r.model, ...away }) });
    }
    if (path === "/interrupt") {
      for (const s of list) if (s.status === "running" || s.status === "waiting") api.change(s.id, { status: "idle", running: [], waiting: null });
      return json(202, {});
    }
    const [, id, verb] = /^\/sessions\/([^/]+)(?:\/(.*))?$/.exec(path) ?? [];
    const session = list.find((s) => s.id === id);
    if (!session) return json(...fault(404, "not_found", "no such session"));
    if (req.method === "PATCH") api.change(id, { title: JSON.parse(body).title });
    if (verb === "archive") api.change(id, { archived: JSON.parse(body).archived });
    if (verb === "close") api.change(id, { status: "ended" });
    if (verb === "retry") api.change(id, { status: "running", retry: null, suspended: "" });
    if (verb === "egress") {
      const rows = logs.get(id).filter((e) => e.kind === "EgressDecided").map((e) => ({ seq: e.seq, at: e.at, decided: e.body }));
      return json(200, rows.reverse().slice(0, Number(url.searchParams.get("limit") ?? 200)));
    }
    if (["start", "attach", "unpause", "restart", "reprovision"].includes(verb)) api.change(id, { sandbox: { value: "ready", cause: "", observed_at: stamp(), source: "engine" } });
    if (verb === "stop") api.change(id, { sandbox: { value: "stopped", cause: "by hand", observed_at: stamp(), source: "engine" } });
    if (verb === "release") api.change(id, { sandbox: { value: "released", cause: "", observed_at: stamp(), source: "ledger" } });
    if (verb === "snapshot" || verb === "fork") {
      const r = JSON.parse(body);
      if (r.name === "taken") return json(...fault(409, "invalid", "there is a snapshot of that name already", "name"));
      const work = { kind: verb, step: verb === "fork" ? "copy of the workspace" : "snapshot of the sandbox", files: verb === "fork" ? 412 : 0, bytes: verb === "fork" ? 48e6 : 0, total: verb === "fork" ? 120e6 : 0, started_at: stamp() };
      api.change(id, { work });
      const went = await new Promise((done) => {
        works.set(id, done);
        if (api.work >= 0) setTimeout(() => done(true), api.work);
      });
      works.delete(id);
      api.change(id, { work: null });
      if (!went) return json(...fault(409, "cancelled", "it was called off; nothing of it is left"));
      if (verb === "snapshot") return json(200, { image: `glovebox/snapshot:${r.name || `${id}-20260504`}`, id: "9c1d2e3f4a5b", size: 412e6, took_ms: 4200 });
      const fork = { session_id: id, seq: 12, sandbox: r.sandbox, workspace: r.workspace };
      const forked = opened({ title: r.title || `Fork of ${session.title}`, fork, shares: r.sandbox === "share" ? [id] : [] });
      if (r.sandbox === "share") api.change(id, { shares: [forked] });
      return json(202, { session_id: forked });
    }
    if (verb === "work/cancel") works.get(id)?.(false);
    const recorded = recording(id).answer(req.method, verb, url.searchParams);
    if (recorded && Buffer.isBuffer(recorded[1])) return res.writeHead(200, { "Content-Type": "image/jpeg" }).end(recorded[1]);
    if (recorded) return json(...recorded);
    const browsed = browser(id).answer(req.method, verb, url.searchParams);
    if (browsed) return json(...browsed);
    const inside = place(id).answer(req.method, verb, url.searchParams, body && JSON.parse(body), session);
    if (inside && Buffer.isBuffer(inside[1])) return res.writeHead(200, { "Content-Type": "application/octet-stream" }).end(inside[1]);
    if (inside) return json(...inside);
    if (verb === "container") return json(200, container(session));
    if (verb === "interrupt" && session.sandbox?.value === "allocating") {
      api.change(id, { status: "idle", step: "", progress: null, sandbox: { value: "failed", cause: "stopped before it was ready", observed_at: stamp(), source: "ledger" } });
    } else if (verb === "interrupt") {
      setTimeout(() => {
        api.tell(id, "TurnInterrupted", {
          cause: "stop", left: 0, took: 38_000_000,
          kills: [{ cause: "stop", killed: [{ pid: 212, name: "sh" }, { pid: 214, name: "sleep" }], rounds: 1, took: 31e6, left: [], stuck: [], best_effort: false }],
        });
        api.change(id, { status: "idle", running: [] });
      }, 600);
    }
    if (verb === "messages") api.tell(id, "MessagesAppended", { messages: [{ role: "user", blocks: [{ text: JSON.parse(body).text }] }], usage: { input: 0, output: 0, cache_read: 0, cache_write: 0 }, notice: false });
    if (verb?.startsWith("approvals/")) {
      const r = JSON.parse(body);
      const call_id = verb.split("/")[1];
      const asked = logs.get(id).find((e) => e.kind === "ToolCallApprovalRequested" && e.body.call_id === call_id);
      api.tell(id, "ToolCallApprovalResolved", { call_id, ...r }, asked?.task_id);
    }
    if (verb?.startsWith("answers/")) {
      api.tell(id, "UserQuestionAnswered", { call_id: verb.split("/")[1], ...JSON.parse(body) });
      api.change(id, { status: "running", waiting: null });
    }
    return json(202, { session_id: id });
  });

  const wss = new WebSocketServer({ noServer: true, handleProtocols: (all) => [...all][0] });
  const ttys = new WebSocketServer({ noServer: true, handleProtocols: (all) => [...all][0] });
  server.on("upgrade", (req, socket, head) => {
    const url = new URL(req.url, "http://x");
    const [, id, terminal] = /^\/api\/v1\/sessions\/([^/]+)\/terminals\/([^/]+)\/socket$/.exec(url.pathname) ?? [];
    const [, viewed] = /^\/api\/v1\/sessions\/([^/]+)\/browser\/socket$/.exec(url.pathname) ?? [];
    if (viewed) ttys.handleUpgrade(req, socket, head, (ws) => browser(viewed).view(ws, url.searchParams));
    else if (url.pathname === "/api/v1/events") wss.handleUpgrade(req, socket, head, (ws) => wss.emit("connection", ws));
    else if (!id) socket.destroy();
    else {
      ttys.handleUpgrade(req, socket, head, (ws) => {
        const shell = place(id).shells.get(terminal);
        if (shell) return shell.view(ws, Number(url.searchParams.get("after") ?? 0));
        ws.send(JSON.stringify({ type: "error", ...fault(404, "not_found", "there is no such terminal")[1] }));
        ws.close();
      });
    }
  });
  const broadcast = (f) => wss.clients.forEach((c) => c.send(JSON.stringify(f)));
  wss.on("connection", (ws) => {
    api.connections++;
    const send = (f) => ws.send(JSON.stringify(f));
    send({ type: "hello", version: "0.1.0", instance: "i1", seq });
    send({ type: "sessions", sessions: list });
    ws.on("close", () => engine.watchers.delete(send));
    ws.on("message", (data) => {
      const f = JSON.parse(String(data));
      if (f.type === "watch_containers") {
        engine.watchers.add(send);
        send({ type: "containers", containers: engine.seen() });
      }
      if (f.type === "unwatch_containers") engine.watchers.delete(send);
      if (f.type === "watch_files") place(f.session_id).watched = f.dirs ?? [];
      if (f.type !== "subscribe") return;
      if (!logs.has(f.session_id)) return send({ type: "error", session_id: f.session_id, error: { code: "unknown_session", message: `session "${f.session_id}": there is no such session`, field: "" } });
      const events = (logs.get(f.session_id) ?? []).filter((e) => e.seq > (f.after ?? 0));
      for (let i = 0; i < events.length; i += 500) {
        send(events.slice(i, i + 500).map((event) => ({ type: "event", session_id: f.session_id, event })));
      }
      send({ type: "caught_up", session_id: f.session_id, seq });
    });
  });
  // The engine is read again and again: states stay young.
  const beat = setInterval(() => {
    for (const s of list) {
      if (s.sandbox && !["stopped", "lost"].includes(s.sandbox.value)) s.sandbox = { ...s.sandbox, observed_at: stamp() };
      if (s.sandbox?.value === "ready") broadcast({ type: "session", session: s });
    }
    engine.tell();
    broadcast({ type: "ping", at: stamp() });
  }, 3000);

  const api = {
    posts,
    connections: 0,
    url: "",
    /** tell appends an event to a session, or to a subtask of it, and sends it. */
    tell(id, kind, body, task = id) {
      const e = { seq: ++seq, task_id: task, root_task_id: id, kind, at: stamp(), generation: 1, body };
      logs.get(id).push(e);
      broadcast({ type: "event", session_id: id, event: e });
    },
    /** fill puts events into a session's log that nobody is told of. */
    fill(id, bodies) {
      for (const [kind, body] of bodies) logs.get(id).push({ seq: ++seq, task_id: id, root_task_id: id, kind, at: stamp(), generation: 1, body });
    },
    live: (f) => broadcast({ type: "live", live: { task_id: f.session_id, stream: "", call_id: "", after: seq, ...f } }),
    /** late sends how a session was before, as a word that was overtaken on its way. */
    late: (id, was) => broadcast({ type: "session", session: { ...list.find((o) => o.id === id), ...was } }),
    change(id, patch) {
      const s = list.find((o) => o.id === id);
      Object.assign(s, patch);
      broadcast({ type: "session", session: s });
    },
    place,
    browser,
    recording,
    machine,
    engine,
    /** work is how many milliseconds a snapshot or a fork takes; below 0 it waits to be called off. */
    work: 300,
    /** put writes a file of a session's sandbox, and tells who watches its directory. */
    put(id, path, content) {
      place(id).put(path, content);
      const dir = path.slice(0, path.lastIndexOf("/"));
      if (place(id).watched.includes(dir)) broadcast({ type: "files", session_id: id, dirs: [dir] });
    },
    /** lose breaks off what it answers at paths that match, so many times. */
    lose: (match, times = Infinity) => losses.push({ match, left: times }),
    /** found ends what lose began. */
    found: () => losses.splice(0),
    dropAll: () => [...wss.clients, ...ttys.clients].forEach((c) => c.terminate()),
    async close() {
      clearInterval(beat);
      machine.close();
      for (const p of places.values()) p.close();
      api.dropAll();
      wss.close();
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
  await new Promise((done) => server.listen(port, "127.0.0.1", done));
  api.url = `http://127.0.0.1:${server.address().port}/`;
  return api;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { url } = await start(Number(process.argv[2] ?? 7333));
  console.log(`${url}#token=${TOKEN}`);
}
