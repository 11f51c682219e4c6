// The inside of the canned sandboxes: a small tree of files, and terminals that speak the real protocol
// with a shell that knows a few words.
import { ago, stamp } from "./clock.mjs";
import { fault } from "./fault.mjs";

const KEPT = 1 << 20; // of a terminal's output
const PNG = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC", "base64");

const GO = `// Package parser reads the small language.
package parser

import "unicode"

const eof = -1

// next returns the token that follows.
func (l *lexer) next() token {
	for {
		c := l.peek()
		if unicode.IsSpace(c) {
			l.skip()
			continue
		}
		if c == eof {
			return token{kind: end, text: "end of input"}
		}
		return l.scan(c)
	}
}
`;

function tree() {
  const files = new Map();
  const add = (path, content, over = {}) =>
    files.set(path, { info: { path, kind: "file", size: content?.length ?? 0, mode: 0o644, uid: 1000, gid: 1000, mod_time: ago(3600), symlink: "", ...over }, content });
  const dir = (path) => add(path, null, { kind: "dir", mode: 0o755, size: 0 });
  dir("/workspace");
  for (const d of [".git", "cmd", "internal", "internal/lexer", "empty", "secret", "many"]) dir(`/workspace/${d}`);
  add("/workspace/.git/HEAD", "ref: refs/heads/main\n");
  add("/workspace/.gitignore", "/bin\n");
  add("/workspace/README.md", "# Parser\n\nReads the *small* language.\n\n```go\nparser.Parse(text)\n```\n");
  add("/workspace/go.mod", "module example.com/parser\n\ngo 1.26\n");
  add("/workspace/internal/lexer/lexer.go", GO);
  add("/workspace/internal/lexer/lexer_test.go", GO.replaceAll("next", "TestNext"));
  add("/workspace/cmd/main.go", "package main\n\nfunc main() {}\n");
  add("/workspace/notes.txt", "");
  add("/workspace/logo.png", PNG);
  add("/workspace/core", Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0, 1, 2, 3]), { size: 48_211_000 });
  add("/workspace/build.log", "line of a long log\n".repeat(40_000), { size: 190_000_000 });
  add("/workspace/latest", GO, { symlink: "internal/lexer/lexer.go" });
  add("/workspace/dangling", null, { kind: "missing", symlink: "/nowhere" });
  add("/workspace/evil\u202egnp.exe", "x\n");
  for (let i = 0; i < 40; i++) add(`/workspace/many/file-${String(i).padStart(2, "0")}.txt`, `${i}\n`);
  return files;
}

class Shell {
  start = 0;
  end = 0;
  log = Buffer.alloc(0);
  line = "";
  views = new Set();
  constructor(id, cols, rows) {
    this.t = { id, argv: ["/bin/bash", "-l"], dir: "/workspace", pid: 40 + Number(id.slice(1)), cols, rows, started_at: stamp(), ended_at: null, exit_code: 0, signal: "" };
    this.write("\x1b]0;a title\x07\x1b[32mkim@sandbox\x1b[0m:\x1b[34m/workspace\x1b[0m$ ");
  }
  info() {
    return { ...this.t, start: this.start, end: this.end, views: this.views.size };
  }
  write(data) {
    const bytes = Buffer.from(data);
    const at = this.end;
    this.end += bytes.length;
    this.log = Buffer.concat([this.log, bytes]).subarray(-KEPT);
    this.start = this.end - this.log.length;
    for (const v of this.views) this.send(v, at, bytes);
  }
  send(ws, at, bytes) {
    for (let i = 0; i < bytes.length; i += 32_768) {
      const part = bytes.subarray(i, i + 32_768);
      const head = Buffer.alloc(8);
      head.writeBigUInt64BE(BigInt(at + i));
      ws.send(Buffer.concat([head, part]));
    }
  }
  view(ws, after) {
    ws.send(JSON.stringify({ type: "terminal", terminal: this.info() }));
    const from = Math.max(after, this.start);
    this.send(ws, from, this.log.subarray(from - this.start));
    if (this.t.ended_at) return ws.close();
    this.views.add(ws);
    ws.on("close", () => this.views.delete(ws));
    ws.on("message", (data, binary) => {
      if (binary) return this.type(String(data));
      const m = JSON.parse(String(data));
      if (m.type === "resize") {
        Object.assign(this.t, { cols: m.cols, rows: m.rows });
        this.tell();
      }
    });
  }
  tell() {
    for (const v of this.views) v.send(JSON.stringify({ type: "terminal", terminal: this.info() }));
  }
  type(text) {
    this.typed = (this.typed ?? "") + text;
    for (const c of text) {
      if (c === "\x1b") this.write("^[");
      else if (c === "\x03") {
        clearInterval(this.flood);
        this.write("^C\r\n$ ");
        this.line = "";
      } else if (c === "\r") this.run();
      else if (c === "\x7f") {
        if (this.line) this.write("\b \b");
        this.line = this.line.slice(0, -1);
      } else if (c >= " ") {
        this.line += c;
        this.write(c);
      }
    }
  }
  run() {
    const [word, ...rest] = this.line.trim().split(" ");
    this.line = "";
    this.write("\r\n");
    if (word === "echo") this.write(`${rest.join(" ")}\r\n`);
    if (word === "ls") this.write("\x1b[34mcmd\x1b[0m  \x1b[34minternal\x1b[0m  README.md  \x1b[32mbuild.sh\x1b[0m  go.mod\r\n");
    if (word === "test") this.write("=== RUN   TestLexer_tabs\r\n\x1b[32m--- PASS\x1b[0m: TestLexer_tabs (0.00s)\r\n=== RUN   TestLexer_eof\r\n\x1b[31m--- FAIL\x1b[0m: TestLexer_eof (0.00s)\r\n    \x1b[38;2;255;120;0mlexer_test.go:31\x1b[0m: got \x1b[1m3\x1b[0m tokens, want \x1b[1m2\x1b[0m\r\n\x1b[33mFAIL\x1b[0m\texample.com/parser\t0.004s\r\n");
    if (word === "evil") this.write("\x1b]52;c;aGFja2Vk\x07\x1b]0;owned\x07\x1b[21t\x1b]8;;javascript:alert(1)\x07bad link\x1b]8;;\x07 \x1b]8;;http://example.com/\x07good link\x1b]8;;\x07\x07\r\n");
    if (word === "ask") this.write("\x1b[c\x1b[6n\r\n");
    if (word === "size") this.write(`${this.t.rows} ${this.t.cols}\r\n`);
    if (word === "flood") {
      const chunk = Buffer.from(Array.from({ length: 400 }, (_, i) => `flood line ${i} ${"x".repeat(60)}\r\n`).join(""));
      let left = 10 << 20;
      this.flood = setInterval(() => {
        for (let i = 0; i < 16 && left > 0; i++, left -= chunk.length) this.write(chunk);
        if (left > 0) return;
        clearInterval(this.flood);
        this.write("flood is over\r\n$ ");
      }, 5);
      return;
    }
    if (word === "exit") {
      Object.assign(this.t, { ended_at: stamp(), exit_code: Number(rest[0] ?? 0) });
      this.write("logout\r\n");
      this.tell();
      for (const v of this.views) v.close();
      return;
    }
    this.write("\x1b[32mkim@sandbox\x1b[0m:\x1b[34m/workspace\x1b[0m$ ");
  }
}

/** Place is the inside of one session's sandbox. */
export class Place {
  files = tree();
  shells = new Map();
  watched = [];
  next = 1;

  /** answer returns the status and body for a route below a session, or nothing. */
  answer(method, verb, query, body, session) {
    const path = query.get("path") || "/workspace";
    const file = this.files.get(path);
    const isUp = session.wall === "local" || session.sandbox?.value === "ready";
    if (verb === "logs") return [200, { text: "glovebox guest 0.1.0 listens\nworkspace /workspace is there\n\x1b[33mwarning\x1b[0m: swap is not limited here\nserving\n", at: stamp() }];
    if (verb === "isolation") {
      const host = { hostname: "workbench", uid: 1000, gid: 1000, kernel: "6.18.0", processes: 318, init: "systemd", capabilities: "000001ffffffffff", interfaces: ["lo", "eth0", "wlan0"], error: "" };
      const sandbox = session.wall === "local" ? host : { hostname: session.short_id, uid: 1000, gid: 1000, kernel: "6.18.0", processes: 4, init: "glovebox-guest", capabilities: "0000000000000000", interfaces: ["lo"], error: "" };
      return [200, { at: stamp(), command: "hostname; id -u; id -g; uname -r; ls -d /proc/[0-9]* | wc -l; cat /proc/1/comm; grep CapEff /proc/self/status; ls /sys/class/net", host, sandbox }];
    }
    if (!/^(files|terminals)/.test(verb ?? "")) return undefined;
    if (!isUp) return fault(409, "sandbox_stopped", "the sandbox does not run: start it");
    if (verb === "files") {
      if (path.endsWith("/secret")) return fault(422, "permission", `${path}: permission denied`);
      if (file?.info.kind !== "dir") return fault(422, "not_found", `${path} is not there`);
      const entries = [...this.files.values()].map((f) => f.info).filter((i) => i.path !== path && i.path.slice(0, i.path.lastIndexOf("/")) === path);
      entries.sort((a, b) => (a.kind !== "dir") - (b.kind !== "dir") || a.path.localeCompare(b.path));
      return [200, { path, entries, truncated: false }];
    }
    if (verb === "files/view") {
      if (!file || file.content === null) return fault(422, "not_found", `${path} is not there`);
      const isImage = path.endsWith(".png");
      const isBinary = !isImage && typeof file.content !== "string";
      const kind = isImage ? "image" : isBinary ? "binary" : "text";
      const text = kind === "text" ? file.content : "";
      return [200, { info: file.info, kind, media_type: isImage ? "image/png" : isBinary ? "application/octet-stream" : "text/plain", text, truncated: file.info.size > text.length && kind === "text", hash: `${file.info.size}-${text.length}-${file.info.mod_time}` }];
    }
    if (verb === "files/raw") return file ? [200, Buffer.from(file.content ?? "")] : fault(422, "not_found", `${path} is not there`);
    if (verb === "terminals" && method === "GET") return [200, [...this.shells.values()].map((s) => s.info())];
    if (verb === "terminals") {
      if (this.shells.size >= 4) return fault(429, "busy", "there are 4 terminals, which is the most: close one first");
      const id = `t${this.next++}`;
      this.shells.set(id, new Shell(id, body.cols || 80, body.rows || 24));
      return [201, this.shells.get(id).info()];
    }
    const id = verb.split("/")[1];
    for (const v of this.shells.get(id)?.views ?? []) v.close();
    this.shells.delete(id);
    return [200, {}];
  }

  /** put writes a file, or removes it (null). */
  put(path, content) {
    if (content === null) this.files.delete(path);
    else this.files.set(path, { info: { ...this.files.get("/workspace/README.md").info, path, size: content.length, mod_time: stamp() }, content });
  }

  close() {
    for (const s of this.shells.values()) clearInterval(s.flood);
  }
}
