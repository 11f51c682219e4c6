// The canned story that mock.mjs tells.
import { ago, isStopped, now, stamp } from "./clock.mjs";
import { egress } from "./engine.mjs";

const condition = (value, cause = "", seconds = 1, source = "engine") => ({ value, cause, observed_at: ago(seconds), source });

const base = {
  detail: "", model: "demo", wall: "docker", image: "glovebox/tiny:0.1", network: "none", user: "host", ref: "docker://local#3f2a9c01d4e7",
  step: "", approvals: "auto", agent: "main", plugins: [], goal: "", archived: false, retry: null, suspended: "", usage: { input: 0, output: 0, cache_read: 0, cache_write: 0 }, cost_usd: null, waiting: null, running: null, generation: 3, seq: 1,
  adopted: false, fork: null, shares: [], work: null, progress: null,
};

export const sessions = [
  { ...base, id: "s1", title: "Make the tests of the parser pass", status: "running", short_id: "3f2a9c01d4e7", network: "proxy", workspace: "/home/kim/src/parser", sandbox: condition("ready"), created_at: ago(900), updated_at: ago(2) },
  { ...base, id: "s2", title: "Upgrade the linter", status: "waiting", short_id: "a81e77c09b12", workspace: "/home/kim/src/web", sandbox: condition("ready", "", 3), created_at: ago(1900), updated_at: ago(64) },
  { ...base, id: "s3", title: "Find out why CI is slow", status: "idle", short_id: "77b0e1f2a3c4", workspace: "/home/kim/src/ci", sandbox: condition("stopped", "out of memory", 48), created_at: ago(7000), updated_at: ago(3000) },
  { ...base, id: "s4", title: "Draft the release notes for the next version of the whole thing", status: "idle", short_id: "", wall: "local", image: "", ref: "", workspace: "/home/kim/src/notes", sandbox: null, created_at: ago(9000), updated_at: ago(8000) },
  { ...base, id: "s5", title: "Port the scraper", status: "idle", short_id: "19cc4de0b7a1", workspace: "/home/kim/src/scraper", network: "open", sandbox: condition("lost", "removed", 5), created_at: ago(20000), updated_at: ago(16000) },
  { ...base, id: "s6", title: "New idea", status: "running", short_id: "", ref: "", workspace: "/home/kim/.local/share/glovebox/ws/6", sandbox: condition("allocating", "", 1, "ledger"), step: "pulling node:22", progress: { step: "pulling node:22", detail: "3 of 8 layers", bytes: 182_000_000, total: 411_000_000, bytes_per_second: 9_400_000, started_at: ago(19) }, created_at: ago(800), updated_at: ago(1) },
  { ...base, id: "s7", title: "One thing done", status: "ended", short_id: "", wall: "namespace", image: "", ref: "", workspace: "/home/kim/src/one", sandbox: condition("released", "", 4, "ledger"), created_at: ago(200000), updated_at: ago(190000) },
];

/** more are so many sessions besides, of the last months. */
export const more = (n) =>
  Array.from({ length: n }, (_, i) => ({
    ...base, id: `m${i}`, title: `Older work ${i}`, status: i % 7 ? "idle" : "ended", short_id: "", ref: "", workspace: `/home/kim/src/old${i}`,
    sandbox: condition("released", "", 4, "ledger"), created_at: ago(300_000 + i * 20_000), updated_at: ago(300_000 + i * 19_000),
  }));

export const about = {
  version: "0.1.0", commit: "abc", instance: "i1", data_dir: "/home/kim/.local/share/glovebox", pid: 1, started_at: ago(1000),
  models: [
    { name: "demo", label: "Demo", base_url: "", key_env: "", key_set: false, sees: false, price: null },
    { name: "anthropic:claude-sonnet-4-5", label: "Claude Sonnet 4.5", base_url: "https://api.anthropic.com", key_env: "ANTHROPIC_API_KEY", key_set: false, sees: true, price: { input: 3, output: 15, cache_read: 0.3, cache_write: 3.75 } },
    { name: "openai:gpt-5", label: "GPT-5", base_url: "https://api.openai.com/v1", key_env: "OPENAI_API_KEY", key_set: true, sees: true, price: null },
  ],
  agents: [
    { name: "main", description: "Reads, writes and runs commands", tools: ["Read", "Write", "Edit", "Glob", "Grep", "Bash"] },
    { name: "explore", description: "Only reads and searches", tools: ["Read", "Glob", "Grep"] },
  ],
  plugins: [{ name: "browser", description: "The sandbox's browser", default: false }],
  home: "/home/dev", window: false, default_model: "demo", default_wall: "docker", default_image: "glovebox/tiny:0.1",
  default_spec: { wall: "docker", image: "glovebox/tiny:0.1", user: "host", workdir: "/workspace", resources: { memory: "2g", cpus: "2", pids: "512", shm: "1g" }, network: { mode: "proxy" } },
  walls: [
    { wall: "docker", available: true, detail: "Docker 20.10.24 at unix:///var/run/docker.sock", fix: "", command: "", worth: "Own user, processes and files, no network; the kernel is shared." },
    { wall: "namespace", available: true, detail: "bubblewrap 0.8.0", fix: "", command: "", worth: "Own processes and files from nothing, no network; the kernel is shared." },
    { wall: "remote", available: true, detail: "", fix: "", command: "", worth: "Whatever the other side has." },
    { wall: "local", available: true, detail: "File tools stay in the workspace; commands do not", fix: "", command: "", worth: "Nothing is kept apart." },
  ],
  images: ["glovebox/tiny:0.1", "debian:12-slim", "node:22"],
};

export const doctor = (broken) => ({
  ok: !broken,
  checks: [
    broken
      ? { name: "docker engine", status: "fail", detail: "nothing listens at /var/run/docker.sock", fix: "start the engine", command: "sudo systemctl start docker", recipe: "" }
      : { name: "docker engine", status: "ok", detail: "engine 20.10.24, API 1.41, at unix:///var/run/docker.sock", fix: "", command: "", recipe: "" },
    { name: "bubblewrap", status: "ok", detail: "bubblewrap works", fix: "", command: "", recipe: "" },
    { name: "tiny image", status: "info", detail: "glovebox/tiny:0.1", fix: "the first session that needs it makes it", command: "glovebox image build --tiny", recipe: "tiny" },
    { name: "standard image", status: "info", detail: "glovebox/sandbox:0.1", fix: "build it for sandboxes with a browser", command: "glovebox image build", recipe: "standard" },
    { name: "guest", status: "ok", detail: "embedded", fix: "", command: "", recipe: "" },
    { name: "user interface", status: "ok", detail: "embedded", fix: "", command: "", recipe: "" },
    { name: "model key", status: "info", detail: "ANTHROPIC_API_KEY is not set", fix: "set ANTHROPIC_API_KEY where Glovebox runs, and start it again; the demo needs no key", command: "export ANTHROPIC_API_KEY=…", recipe: "" },
    broken
      ? { name: "store", status: "warn", detail: "the disk is nearly full: 212 MB are left", fix: "make room on it", command: "", recipe: "" }
      : { name: "store", status: "ok", detail: "/home/kim/.local/share/glovebox", fix: "", command: "", recipe: "" },
  ],
});

const started = now();
let readings = 0;

/** used is what a sandbox has used so far. With a stopped clock each reading is two seconds after the last. */
function used() {
  const at = isStopped ? now() + ++readings * 2000 : now();
  const t = (at - started) / 1000;
  return { observed_at: stamp(at), cpu: (t * 0.62 + Math.sin(t / 3)) * 1e9, memory: 412e6 + Math.sin(t / 5) * 2e7 };
}

/** unbound is the card of a session that has no sandbox yet. */
const unbound = { condition: { value: "", cause: "", observed_at: "0001-01-01T00:00:00Z", source: "" }, description: null, hello: null, stats: null, error: "the session has no sandbox" };

export const container = (s) => s.sandbox?.value === "allocating" ? unbound : ({
  condition: { ...s.sandbox, observed_at: stamp() },
  description: {
    id: `${s.short_id}9b5f0a417d22c6`, short_id: s.short_id, name: "glovebox-i1-s1-1", image: s.image,
    image_digest: "sha256:3b1f6a0c77e0d3a4a7be20b1d1e2f3", started_at: ago(860),
    mounts: [
      { source: s.workspace, target: "/workspace", mode: "rw", kind: "local-path" },
      { source: "/home/kim/.agents/skills", target: "/skills", mode: "ro", kind: "local-path" },
    ],
    limits: { memory: "2g", cpus: "2", pids: "512", shm: "1g" }, not_enforced: ["swap"], network: s.network, user: "1000:1000",
    notes: ["The kernel is the host's: 6.18.0"],
    commands: [
      { does: "make", text: `docker run -d --name glovebox-i1-s1-1 --network none --memory 2g --cpus 2 -v ${s.workspace}:/workspace ${s.image}` },
      { does: "shell", text: `docker exec -it ${s.short_id} /bin/sh` },
      { does: "logs", text: `docker logs --tail 100 ${s.short_id}` },
      { does: "stop", text: `docker stop ${s.short_id}` },
      { does: "remove", text: `docker rm -f ${s.short_id}` },
    ],
  },
  hello: {
    version: 1, build: "0.1.0", guest_id: "g", boot_id: "b", started_at: ago(860), hostname: s.short_id, workdir: "/workspace", uid: 1000, gid: 1000,
    user: "kim", home: "/home/kim", tag: "gid", best_effort: false, kernel: "6.18.0", shell: "/bin/sh", warnings: null,
  },
  stats: {
    ...used(), memory_limit: 2147483648,
    pids: 14, pids_limit: 512, guest_memory: 9e6, calls: s.status === "running" ? 1 : 0,
  },
  error: s.sandbox?.value === "ready" ? "" : "The container does not run: live numbers are not available.",
});

const diff = `--- a/lexer.go
+++ b/lexer.go
@@ -41,9 +41,11 @@ func (l *lexer) next() token {
 	for {
 		c := l.peek()
-		if c == ' ' {
+		if unicode.IsSpace(c) {
 			l.skip()
 			continue
 		}
+		if c == eof {
+			return token{kind: end}
+		}
 		return l.scan(c)
`;

const answer = `## What changed

The lexer now **skips every kind of space**, and ends cleanly at the end of the input. Three things to know:

1. \`unicode.IsSpace\` also matches *no-break spaces*, as [the docs](https://pkg.go.dev/unicode#IsSpace) say.
2. The tests are as they were.
3. Columns are still counted in bytes:
   - that is right for ASCII
   - it is ~~wrong~~ surprising for everything else

> Columns in runes would change the error messages of every caller.

| file | before | after |
|:-----|-------:|------:|
| lexer.go | 208 | 212 |
| testdata/tabs.txt | – | 1 |

\`\`\`go
for unicode.IsSpace(l.peek()) {
	l.skip()
}
\`\`\`

![a diagram](https://example.com/track.png)
`;
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAGAAAAA2CAIAAAC3LQuFAAAAcUlEQVR42u3YMQ0AMAhFQRQgsmPXSiSprjpg68QlT8FNfGLVVVMgAAQIECBAgABNBcp91AQIECBAgAABAjQWyK1sagACBAgQIECA5KNoagACBAgQIEAC5KNoagACBAgQIAEC5KNoagACBAgQIAEC9KEHdoK4ZSi+yhIAAAAASUVORK5CYII=";

/** story is the log of one session. */
export function story(s) {
  const where = { wall: s.wall, sandbox_id: s.short_id.slice(0, 6), workdir: "/workspace", boot: "b1" };
  const events = [];
  let seq = 0;
  let at = 600;
  const tell = (kind, body) => events.push({ seq: ++seq, task_id: s.id, root_task_id: s.id, kind, at: ago((at -= 3)), generation: 1, body });
  const says = (role, text, ...uses) =>
    tell("MessagesAppended", { messages: [{ role, blocks: [{ text }, ...uses.map((use) => ({ use }))] }], usage: { input: 10, output: 20 }, notice: false });
  let n = 0;
  const call = (tool, input, display, over = {}) => {
    const call_id = `${s.id}c${++n}`;
    tell("ToolCallStarted", { call_id, tool, input, actor: "agent", where });
    tell("ToolResultRecorded", { call_id, tool, status: "ok", text: "", images: null, display, files: null, where, duration: 4e6, ...over });
    tell("ToolCallFinished", { call_id });
  };
  const bash = (command, over = {}, result = {}) =>
    call("Bash", { command }, {
      command, description: "", exit_code: 0, signal: 0, timed_out: false, interrupted: false, out_of_memory: false, stdout: "", stderr: "",
      stdout_total: 0, stderr_total: 0, dropped: 0, background: null, kill: null, duration_ms: 12, ...over,
    }, result);

  tell("TaskCreated", s.id === "s1" ? { spec: { network: { mode: "proxy", allow: ["registry.lan:5000"] } } } : {});
  if (s.status !== "ended" && s.id !== "s6" && s.wall !== "local") {
    tell("SandboxStateChanged", { condition: condition("allocating"), ref: "", detail: "create" });
    tell("SandboxStateChanged", { condition: condition("ready"), ref: s.ref, detail: "" });
  }
  tell("TaskHostBound", { host_id: "h", workspace_dir: s.workspace, exec_env_ref: s.ref, wall: s.wall, sandbox_id: s.short_id, image: s.image, network: s.network, reprovision: false });
  if (s.id === "s6") return events.slice(0, 1);
  says("user", "The tests of the lexer fail since this morning. Find out why and make them pass.\nDo not change the tests.");
  tell("TaskWoken", { cause: "message" });
  says("assistant", "I look at the package and run its tests first.");
  call("Glob", { pattern: "**/*.go" }, { pattern: "**/*.go", path: "/workspace", mode: "glob", rows: 4, total: 4, truncated: false, warnings: null },
    { text: "/workspace/lexer.go\n/workspace/lexer_test.go\n/workspace/parser.go\n/workspace/main.go", duration: 2e6 });
  bash("go test ./...", {
    exit_code: 1, stdout: "\x1b[31m--- FAIL: TestLexer_tabs (0.00s)\x1b[0m\n    lexer_test.go:31: got 3 tokens, want 2\nFAIL\nFAIL\texample.com/parser\t0.004s\n",
    stderr: "go: warning: \x1b]8;;http://evil.example\x07click here\x1b]8;;\x07 ignored\n",
  }, { status: "error", duration: 1_840e6 });
  call("Grep", { pattern: "c == ' '" }, { pattern: "c == ' '", path: "/workspace", mode: "content", rows: 1, total: 1, truncated: false, warnings: null },
    { text: "/workspace/lexer.go:43:\t\tif c == ' ' {" });
  call("Read", { file_path: "/workspace/lexer.go", offset: 30, limit: 40 }, { path: "/workspace/lexer.go", start_line: 30, lines: 40, total_lines: 212, size: 5120, media_type: "" },
    { text: "    30\tfunc (l *lexer) next() token {\n    31\t\tfor {\n    32\t\t\tc := l.peek()" });
  says("assistant", "Only a blank is skipped, so a tab becomes a token of its own. The fix:\n\n```go\nif unicode.IsSpace(c) {\n\tl.skip()\n\tcontinue\n}\n```\n\nI also end cleanly at the end of the input.");
  call("Edit", { file_path: "/workspace/lexer.go" }, { path: "/workspace/lexer.go", diff, added: 4, removed: 1, replaced: 1, in_place: false });
  call("Write", { file_path: "/workspace/testdata/tabs.txt", content: "a\tb\n" },
    { path: "/workspace/testdata/tabs.txt", created: true, bytes: 4, lines: 1, diff: "--- /dev/null\n+++ b/testdata/tabs.txt\n@@ -0,0 +1 @@\n+a\tb\n", added: 1, removed: 0, in_place: false });
  bash("timeout 1 sleep 100 & sleep 100", {
    timed_out: true, signal: 9, exit_code: 137, duration_ms: 2000,
    kill: { cause: "timeout", killed: [{ pid: 201, name: "sh" }, { pid: 203, name: "sleep" }], rounds: 1, took: 34e6, left: [], stuck: [], best_effort: false },
  }, { status: "timeout", duration: 2_034e6 });
  bash("python3 -m http.server 8000 >/dev/null 2>&1 &\necho started", { stdout: "started\n", background: [{ pid: 230, name: "python3" }] }, { duration: 9e6 });
  if (s.id === "s4") {
    tell("LLMRequestStarted", { model: "claude" });
    tell("LLMRetryScheduled", { attempt: 1, attempts: 6, at: ago(at), kind: "overloaded", detail: "529 overloaded_error" });
    tell("LLMRequestFinished", { model: "claude", usage: { input: 1200, output: 340, cache_read: 18400, cache_write: 900 }, cost_usd: 0.0134, duration: 9e9, error: "" });
    says("assistant", answer);
    call("Read", { file_path: "/workspace/shot.png" }, { path: "/workspace/shot.png", start_line: 0, lines: 0, total_lines: 0, size: 175, media_type: "image/png" },
      { text: "/workspace/shot.png: image (image/png, 175 bytes).", images: [{ media_type: "image/png", data: PNG }] });
    call("Grep", { pattern: "TODO", output_mode: "content", "-C": 1 }, { pattern: "TODO", path: "/workspace", mode: "content", rows: 5, total: 5, truncated: true, warnings: ["vendor/x: permission denied"] },
      { text: "lexer.go-40-// next returns a token.\nlexer.go:41:// TODO: columns\nlexer.go-42-func (l *lexer) next() token {\n--\ndocs/a-2-b.md:7:- TODO: say how\ndocs/a-2-b.md:9:TODO\n(cut after 5 lines; there are more: use offset=5 to go on, or narrow the search)\n(warning: vendor/x: permission denied)" });
    bash("npm test", { exit_code: 0, stdout: "\x1b[1m\x1b[32m PASS \x1b[39m\x1b[22m lexer \x1b[2m(12 ms)\x1b[22m\n\x1b[43m WARN \x1b[49m \x1b[33mslow test\x1b[0m\n\x1b[36mℹ\x1b[39m tests \x1b[35m12\x1b[0m\n\x1b[38;5;208mdone\x1b[0m\n", stdout_total: 2_430_000, dropped: 2_400_000 }, { duration: 12e9 });
    call("mcp__tracker__create_ticket", { title: "Columns in the lexer", labels: ["bug", "lexer"], links: { parent: 12, blocks: [] }, urgent: false }, null, { text: "Created PARSER-7.", duration: 420e6 });
    bash("curl -X POST https://deploy.example/run", {}, { status: "unknown", text: "The server was stopped while the call ran and could not be asked again.", display: null, duration: 0 });
    tell("TaskSuspended", { reason: "waiting_human", wake_on: "next-goal", detail: "" });
  }
  if (s.id === "s2") {
    const input = { command: "npm install --save-dev eslint@9 && npm run lint -- --fix" };
    says("assistant", "The new version needs its packages.", { id: "ask1", name: "Bash", input });
    tell("ToolCallApprovalRequested", { call_id: "ask1", tool: "Bash", input, reason: "Bash runs a command" });
  } else if (s.id === "s1") {
    says("assistant", "Now all tests again, with the race detector.", { id: "live1", name: "Bash", input: { command: "go test -race -v ./..." } });
    tell("ToolCallStarted", { call_id: "live1", tool: "Bash", input: { command: "go test -race -v ./..." }, actor: "agent", where });
    events.at(-1).at = ago(4);
    for (const d of egress) tell("EgressDecided", d);
  } else if (s.sandbox?.value === "stopped" || s.sandbox?.value === "lost") {
    tell("SandboxStateChanged", { condition: s.sandbox, ref: s.ref, detail: "" });
    tell("TaskSuspended", { reason: "turn_failed", wake_on: "next-goal", detail: "the sandbox went away while the call ran: attach it, or re-provision, and send a message to go on" });
  }
  return events;
}
