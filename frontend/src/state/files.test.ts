import { beforeEach, describe, expect, it } from "vitest";
import { ApiError } from "../api/client";
import type { FileInfo, FileView, Listing } from "../api/types.gen";
import { Files, type FileServer } from "./files.svelte";

const info = (path: string, over: Partial<FileInfo> = {}): FileInfo => ({
  path, kind: "file", size: 3, mode: 0o644, uid: 0, gid: 0, mod_time: "2026-01-01T00:00:00Z", symlink: "", ...over,
});

class FakeServer implements FileServer {
  asked: string[] = [];
  dirs = new Map<string, FileInfo[]>([
    ["/w", [info("/w/src", { kind: "dir" }), info("/w/.env"), info("/w/a.txt")]],
    ["/w/src", [info("/w/src/main.go"), info("/w/src/other.go")]],
  ]);
  texts = new Map<string, string>([["/w/src/main.go", "one"]]);

  files = (_: string, path: string): Promise<Listing> => {
    this.asked.push(path);
    const entries = this.dirs.get(path || "/w");
    return entries ? Promise.resolve({ path: path || "/w", entries, truncated: false }) : Promise.reject(new ApiError(422, "not_found", "it is not there"));
  };
  file = (_: string, path: string): Promise<FileView> => {
    this.asked.push(path);
    const text = this.texts.get(path);
    if (text === undefined) return Promise.reject(new ApiError(422, "not_found", "it is not there"));
    return Promise.resolve({ info: info(path, { size: text.length }), kind: "text", media_type: "text/plain", text, truncated: false, hash: text });
  };
  raw = (): Promise<Blob> => Promise.resolve(new Blob());
}

describe("Files", () => {
  let server: FakeServer;
  let files: Files;
  const names = (): string[] => files.rows.map((r) => `${r.level} ${r.name} ${r.at}/${r.of}`);

  beforeEach(async () => {
    server = new FakeServer();
    files = new Files(server, "s1");
    await files.start();
  });

  it("reads a directory when it is opened, and not before", async () => {
    expect(server.asked).toEqual([""]);
    await files.expand("/w/src");
    files.collapse("/w/src");
    await files.expand("/w/src");
    expect(server.asked).toEqual(["", "/w/src"]);
  });

  it("leaves out hidden files until they are asked for, and counts what it shows", async () => {
    await files.expand("/w/src");
    expect(names()).toEqual(["1 src 1/2", "2 main.go 1/2", "2 other.go 2/2", "1 a.txt 2/2"]);
    files.hidden = true;
    expect(names()).toContain("1 .env 2/3");
  });

  it("filters names, and keeps the way to what it finds", async () => {
    await files.expand("/w/src");
    files.filter = "MAIN";
    expect(names()).toEqual(["1 src 1/1", "2 main.go 1/1"]);
  });

  it("watches what is open, and the directory of the open file", async () => {
    await files.open("/w/src/main.go");
    expect(files.watched).toEqual(["/w", "/w/src"]);
  });

  it("reads only the directories that changed and that it knows", async () => {
    server.asked = [];
    server.dirs.set("/w", [info("/w/new.txt")]);
    await files.changed(["/w", "/w/src"]);
    expect(server.asked).toEqual(["/w"]);
    expect(names()).toEqual(["1 new.txt 1/1"]);
  });

  it("says when the open file changed, and not when only its neighbour did", async () => {
    await files.open("/w/src/main.go");
    await files.changed(["/w/src"]);
    expect(files.opened?.changedAt).toBe(0);
    server.texts.set("/w/src/main.go", "two");
    await files.changed(["/w/src"]);
    expect(files.opened?.view?.text).toBe("two");
    expect(files.opened?.changedAt).toBeGreaterThan(0);
  });

  it("keeps the last text of a file that was removed, and takes it back when it returns", async () => {
    await files.open("/w/src/main.go");
    server.texts.delete("/w/src/main.go");
    await files.changed(["/w/src"]);
    expect(files.opened).toMatchObject({ removed: true, view: { text: "one" } });
    server.texts.set("/w/src/main.go", "one");
    await files.changed(["/w/src"]);
    expect(files.opened?.removed).toBe(false);
  });

  it("shows the file that was opened last, whichever answer comes last", async () => {
    server.texts.set("/w/slow", "slow");
    let release = (): void => undefined;
    const read = server.file;
    server.file = async (session, path) => {
      if (path === "/w/slow") await new Promise<void>((done) => (release = done));
      return read(session, path);
    };
    const slow = files.open("/w/slow");
    await files.open("/w/src/main.go");
    release();
    await slow;
    expect(files.opened?.path).toBe("/w/src/main.go");
    expect(files.opened?.view?.text).toBe("one");
  });
});
