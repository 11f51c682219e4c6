// The machine that the canned server runs on: its walls, its images and how they are built, its folders.
import { now, stamp } from "./clock.mjs";
import { fault } from "./fault.mjs";
import { about, doctor } from "./story.mjs";

const DAY = 86_400_000;
const image = (ref, id, mib, days, ours = false) => ({ ref, id, size: mib * 1024 * 1024, created_at: stamp(now() - days * DAY), ours, session_id: "" });

/** So long a step takes that none comes by itself. */
export const BY_HAND = 600_000;

const STEPS = ["ask the engine", "find busybox", "pack the file system", "import it", "look what the engine has"];
const TINY = "glovebox/tiny:0.1";
const RECIPES = { tiny: () => image(TINY, "aa11bb22cc33", 4.2, 0, true), standard: () => image("glovebox/sandbox:0.1", "99ee88dd77cc", 1010, 0, true) };

export class Machine {
  about = structuredClone(about);
  images = [image(TINY, "aa11bb22cc33", 4.2, 0.2, true), image("node:22", "d4e5f6071829", 1130, 12), image("debian:12-slim", "0f1e2d3c4b5a", 74.8, 40)];
  imagesError = "";
  builds = new Map();
  /** step is how many milliseconds a step of the next build or pull takes; with BY_HAND each comes by its next(). fails is what the next one ends with. */
  step = 120;
  fails = "";
  folders = new Map(
    ["/", "/home", "/home/dev", "/home/dev/.ssh", "/home/dev/.config", "/home/dev/src", "/home/dev/src/parser", "/home/dev/src/web app", "/home/dev/notes", "/srv", "/var"].map((p) => [p, p === "/" || p === "/home" || p.endsWith(".ssh") ? `${p} is never mounted: it holds more than a workspace` : ""]),
  );

  constructor({ bare = false, untiny = false, unbuilt = false, broken = false } = {}, broadcast) {
    this.unbuilt = unbuilt;
    this.broken = broken;
    this.broadcast = broadcast;
    if (untiny) {
      this.images = this.images.slice(1);
      this.about.images = this.about.images.slice(1);
    }
    if (bare) this.takeWalls();
  }

  takeWalls() {
    const fixes = {
      docker: { fix: "install a Docker engine and start it", command: "sudo apt-get install docker.io && sudo systemctl start docker" },
      namespace: { fix: "install bubblewrap", command: "sudo apt-get install bubblewrap" },
    };
    const details = { docker: "dial unix /var/run/docker.sock: connect: no such file or directory", namespace: "bwrap is not in PATH" };
    for (const w of this.about.walls) if (fixes[w.wall]) Object.assign(w, { available: false, detail: details[w.wall], ...fixes[w.wall] });
    this.about.default_wall = "";
    this.bare = true;
  }

  doctor() {
    const d = doctor(this.broken);
    if (!this.unbuilt) d.checks = d.checks.filter((c) => c.name !== "standard image");
    if (!this.bare) return d;
    const checks = this.about.walls.filter((w) => !w.available).map((w) => ({ name: w.wall, status: "fail", detail: w.detail, fix: w.fix, command: w.command }));
    return { ok: false, checks: [...checks, ...d.checks.filter((c) => !["docker engine", "bubblewrap", "tiny image"].includes(c.name))] };
  }

  /** answer returns the status and body for a route of the machine, or nothing. */
  answer(method, path, query, body) {
    if (path === "/about") return [200, this.about];
    if (path === "/doctor") return [200, this.doctor()];
    if (path === "/images") return [200, { default: this.about.default_image, recipes: this.recipes(), images: this.imagesError ? [] : this.images, builds: [...this.builds.values()].map((b) => b.state), error: this.imagesError }];
    if (path === "/images/build") return this.build(body.image);
    if (path === "/images/build/cancel") return this.cancel(body.image);
    if (path === "/images/pull") return this.pull(body.image);
    if (path === "/images/pull/cancel") return this.cancelPull(body.image);
    if (path === "/dirs" && method === "GET") return this.list(query.get("path") || this.about.home);
    if (path === "/dirs") return this.make(body.path);
    return undefined;
  }

  /** recipes say of each image that can be built whether it is there; the standard one is taken to be, unless a test takes it away. */
  recipes() {
    return Object.entries(RECIPES).map(([name, made]) => ({ name, ref: made().ref, there: this.images.some((i) => i.ref === made().ref) || (name === "standard" && !this.unbuilt) }));
  }

  build(name) {
    if (!RECIPES[name]) return fault(400, "invalid", `there is no recipe for "${name}"; choose standard or tiny`, "image");
    const made = RECIPES[name]();
    const running = this.builds.get(name);
    if (running?.state.state === "running") return [202, running.state];
    const b = { state: { kind: "build", detail: "", bytes: 0, total: 0, bytes_per_second: 0, image: name, ref: made.ref, state: "running", step: STEPS[0], log: [STEPS[0]], error: "", started_at: stamp(), ended_at: null } };
    this.builds.set(name, b);
    const tell = () => this.broadcast({ type: "build", build: structuredClone(b.state) });
    b.end = (state, error = "") => {
      clearInterval(b.timer);
      Object.assign(b.state, { state, error, step: "", ended_at: stamp() });
      if (state === "done") this.images.unshift(made);
      if (state === "done" && name === "standard") this.about.default_image = made.ref;
      tell();
    };
    b.next = () => {
      const next = STEPS[b.state.log.length];
      if (this.fails && b.state.log.length === 2) return b.end("failed", this.fails);
      if (!next) return b.end("done");
      b.state.log = [...b.state.log, next];
      b.state.step = next;
      tell();
    };
    b.timer = setInterval(b.next, this.step);
    tell();
    return [202, structuredClone(b.state)];
  }

  /** pull gets an image, a tenth of it with each step. */
  pull(name) {
    if (name.startsWith("private/")) return fault(422, "image", `pull ${name}: the registry refused: unauthorized`, "image");
    const b = { state: { kind: "pull", image: name, ref: name, state: "running", step: `pulling ${name}`, log: [], error: "", started_at: stamp(), ended_at: null, detail: "1 of 4 layers", bytes: 0, total: 74_800_000, bytes_per_second: 9_000_000 } };
    this.builds.set(`pull ${name}`, b);
    const tell = () => this.broadcast({ type: "build", build: structuredClone(b.state) });
    b.end = (state, error = "") => {
      clearInterval(b.timer);
      Object.assign(b.state, { state, error, step: "", ended_at: stamp() });
      if (state === "done") this.images.push(image(name, "77aa88bb99cc", 74.8, 0));
      tell();
    };
    b.next = () => {
      b.state.bytes = Math.min(b.state.total, b.state.bytes + b.state.total / 10);
      if (b.state.bytes >= b.state.total) return b.end("done");
      tell();
    };
    b.timer = setInterval(b.next, this.step);
    tell();
    return [202, structuredClone(b.state)];
  }

  cancelPull(name) {
    const b = this.builds.get(`pull ${name}`);
    if (b?.state.state !== "running") return fault(409, "conflict", "no pull of this image is running");
    b.end("cancelled");
    return [202, b.state];
  }

  cancel(name) {
    const b = this.builds.get(name);
    if (b?.state.state !== "running") return fault(409, "conflict", "no build of this image is running");
    b.end("cancelled");
    return [202, b.state];
  }

  list(path) {
    if (path === "/home/dev/locked") return fault(422, "permission", `${path}: permission denied`);
    if (!this.folders.has(path)) return fault(404, "not_found", `${path} is not there`);
    const above = path === "/" ? "" : path.slice(0, path.lastIndexOf("/")) || "/";
    const dirs = [...this.folders.keys()]
      .filter((p) => p !== "/" && p !== path && (p.slice(0, p.lastIndexOf("/")) || "/") === path)
      .sort()
      .map((p) => ({ name: p.slice(p.lastIndexOf("/") + 1), path: p, hidden: p.slice(p.lastIndexOf("/") + 1).startsWith(".") }));
    return [200, { path, parent: above, refused: this.folders.get(path), dirs, more: false }];
  }

  make(path) {
    if (this.folders.has(path)) return fault(409, "exists", `${path} is there already: choose it, or another name`);
    this.folders.set(path, "");
    return this.list(path);
  }

  close() {
    for (const b of this.builds.values()) clearInterval(b.timer);
  }
}
