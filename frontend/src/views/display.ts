import type { BashDisplay, EditDisplay, ReadDisplay, SearchDisplay, WriteDisplay } from "../api/types.gen";
import type { Call } from "../state/items.svelte";
import { count } from "../text/format";
import { shortPath } from "./words";

/** What a card shows of a call, by tool. A tool that is not known shows its input and text as they are. */
export type Shown =
  | { as: "bash"; command: string; display: BashDisplay | null }
  | { as: "diff"; path: string; diff: string; added: number; removed: number; created: boolean; inPlace: boolean }
  | { as: "read"; path: string; detail: string }
  | { as: "search"; pattern: string; detail: string; warnings: string[] }
  | { as: "other"; summary: string };

function field(input: unknown, name: string): string {
  if (typeof input !== "object" || input === null) return "";
  const value = (input as Record<string, unknown>)[name];
  return typeof value === "string" ? value : "";
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
      return { as: "bash", command: d?.command || field(input, "command"), display: d };
    }
    case "Edit": {
      const d = display<EditDisplay>(call);
      const path = shortPath(d?.path || field(input, "file_path"), workdir);
      return { as: "diff", path, diff: d?.diff ?? "", added: d?.added ?? 0, removed: d?.removed ?? 0, created: false, inPlace: d?.in_place ?? false };
    }
    case "Write": {
      const d = display<WriteDisplay>(call);
      const path = shortPath(d?.path || field(input, "file_path"), workdir);
      return { as: "diff", path, diff: d?.diff ?? "", added: d?.added ?? 0, removed: d?.removed ?? 0, created: d?.created ?? false, inPlace: d?.in_place ?? false };
    }
    case "Read": {
      const d = display<ReadDisplay>(call);
      return { as: "read", path: shortPath(d?.path || field(input, "file_path"), workdir), detail: d ? readDetail(d) : "" };
    }
    case "Glob":
    case "Grep": {
      const d = display<SearchDisplay>(call);
      const base = d?.path || field(input, "path");
      const place = base && base !== workdir ? ` in ${shortPath(base, workdir)}` : "";
      return {
        as: "search",
        pattern: (d?.pattern || field(input, "pattern")) + place,
        detail: d ? searchDetail(d) : "",
        warnings: d?.warnings ?? [],
      };
    }
    default:
      return { as: "other", summary: oneLine(input) };
  }
}

function readDetail(d: ReadDisplay): string {
  if (d.media_type) return d.media_type;
  if (d.lines === 0) return "no lines";
  const last = d.start_line + d.lines - 1;
  if (d.start_line === 1 && last >= d.total_lines) return count(d.lines, "line");
  return `lines ${d.start_line}–${last}${d.total_lines ? ` of ${d.total_lines}` : ""}`;
}

function searchDetail(d: SearchDisplay): string {
  const what = d.mode === "content" ? "line" : "file";
  if (d.rows === 0) return "nothing found";
  if (d.total > d.rows) return `${d.rows} of ${count(d.total, what)}`;
  return d.truncated ? `${count(d.rows, what)}, cut` : count(d.rows, what);
}

function oneLine(input: unknown): string {
  const text = JSON.stringify(input) ?? "";
  return text === "{}" || text === "null" ? "" : text.slice(0, 200);
}
