import type { BashDisplay, BrowserDisplay, EditDisplay, ReadDisplay, SearchDisplay, WriteDisplay } from "../api/types.gen";
import type { Call } from "../state/items.svelte";
import { parseDiff, replacing, type DiffLine } from "../text/diff";
import { count } from "../text/format";
import { oneLine, visible } from "../text/visible";
import { actionText, isBrowser, pageText } from "./browser";
import { shortPath } from "./words";

/** What a card shows of a call, by tool. A tool that is not known shows its input and text as they are. */
export type Shown =
  | { as: "bash"; title: string; command: string; note: string; display: BashDisplay | null }
  | { as: "diff"; title: string; path: string; lines: () => DiffLine[]; added: number; removed: number; created: boolean; inPlace: boolean }
  | { as: "read"; title: string; path: string; detail: string }
  | { as: "search"; title: string; path: string; detail: string; mode: string; lines: boolean }
  | { as: "task"; title: string; agent: string; prompt: string; detail: string }
  | { as: "browser"; title: string; detail: string; url: string; display: BrowserDisplay | null }
  | { as: "other"; title: string };

function value(input: unknown, name: string): unknown {
  return typeof input === "object" && input !== null ? (input as Record<string, unknown>)[name] : undefined;
}

function field(input: unknown, name: string): string {
  const v = value(input, name);
  return typeof v === "string" ? v : "";
}

/** The server wrote a result's display from the struct that its tool names; it is null where there is no result. */
function display<T>(call: Call): T | null {
  return call.over && typeof call.display === "object" ? (call.display as T | null) : null;
}

export function shown(call: Call): Shown {
  const input = call.input;
  const workdir = call.where?.workdir ?? "";
  switch (call.tool) {
    case "Bash": {
      const d = display<BashDisplay>(call);
      const command = d?.command || field(input, "command");
      return { as: "bash", title: oneLine(command), command, note: d?.description || field(input, "description"), display: d };
    }
    case "Edit":
    case "Write": {
      const d = display<EditDisplay & WriteDisplay>(call);
      const path = d?.path || field(input, "file_path");
      // Before there is a result, the input says what is to be done.
      const lines = (): DiffLine[] =>
        d || call.over ? parseDiff(d?.diff ?? "") : replacing(field(input, "old_string"), field(input, call.tool === "Edit" ? "new_string" : "content"));
      return {
        as: "diff", title: oneLine(shortPath(path, workdir)), path, lines,
        added: d?.added ?? 0, removed: d?.removed ?? 0, created: d?.created ?? false, inPlace: d?.in_place ?? false,
      };
    }
    case "Read": {
      const d = display<ReadDisplay>(call);
      const path = d?.path || field(input, "file_path");
      return { as: "read", title: oneLine(shortPath(path, workdir)), path, detail: d ? readDetail(d) : "" };
    }
    case "Glob":
    case "Grep": {
      const d = display<SearchDisplay>(call);
      const base = d?.path || field(input, "path");
      const place = base && base !== workdir ? ` in ${shortPath(base, workdir)}` : "";
      return {
        as: "search", title: oneLine((d?.pattern || field(input, "pattern")) + place), path: base, detail: d ? searchDetail(d) : "",
        mode: d?.mode ?? "", lines: value(input, "-n") !== false,
      };
    }
    case "Task": {
      const agent = call.subtask?.agent || field(input, "subagent_type");
      const what = call.subtask?.description || field(input, "description");
      return { as: "task", title: oneLine(what), agent: oneLine(agent), prompt: field(input, "prompt"), detail: taskDetail(call) };
    }
    default: {
      if (!isBrowser(call.tool)) return { as: "other", title: summary(input) };
      const d = display<BrowserDisplay>(call);
      return { as: "browser", title: actionText(call.tool, input, d), detail: pageText(d), url: d?.url ?? "", display: d };
    }
  }
}

function readDetail(d: ReadDisplay): string {
  if (d.media_type) return visible(d.media_type);
  if (d.lines === 0) return "no lines";
  const last = d.start_line + d.lines - 1;
  if (d.start_line === 1 && last >= d.total_lines) return count(d.lines, "line");
  return `lines ${d.start_line}–${last}${d.total_lines ? ` of ${d.total_lines}` : ""}`;
}

/** taskDetail says what a subagent does now, or how much it did. */
function taskDetail(call: Call): string {
  if (!call.subtask) return "";
  const calls = call.subtask.timeline.items.filter((i) => i.kind === "call");
  const last = calls.at(-1);
  if (!call.over && call.asks) return "waits for you";
  if (!call.over && last && !last.over) return `${last.tool} ${shown(last).title}`.trimEnd();
  if (!call.over && call.subtask.timeline.thinking) return "thinking";
  return calls.length > 0 ? count(calls.length, "call") : "";
}

function searchDetail(d: SearchDisplay): string {
  const what = d.mode === "content" ? "line" : "file";
  if (d.rows === 0) return "nothing found";
  if (d.total > d.rows) return `${d.rows} of ${count(d.total, what)}`;
  return d.truncated ? `${count(d.rows, what)}, cut` : count(d.rows, what);
}

function summary(input: unknown): string {
  const text = JSON.stringify(input) ?? "";
  return text === "{}" || text === "null" ? "" : oneLine(text, 200);
}
