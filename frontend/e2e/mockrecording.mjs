// The recording of a canned session: some pictures, what the agent did between them, and a while in which a person had control.
import { readFileSync } from "node:fs";
import { now, stamp } from "./clock.mjs";
import { fault } from "./fault.mjs";

const picture = readFileSync(new URL("./pages/shop.jpg", import.meta.url));
const AGO = 600; // seconds since it began

export class MockRecording {
  constructor(session) {
    this.on = true;
    this.first = 1;
    this.began = now() - AGO * 1000;
    /** What was asked of it: pictures by number, and "erase". */
    this.asked = [];
    this.entries = [];
    if (session.id === "s1") this.tell();
  }

  tell() {
    this.frame(0, "Harbour Tickets");
    this.action(3, "click <a> Sign in", "b1", { x: 1166, y: 20, width: 78, height: 32 });
    this.frame(4, "Harbour Tickets: sign in");
    this.add(10, { kind: "gap", reason: "held", label: "A person had control: nothing is recorded then." });
    this.add(310, { title: "Harbour Tickets: your bookings", scroll_y: 900 });
    this.action(312, "click <button> Print", "b2", { x: 200, y: 1200, width: 200, height: 60 }, true);
    this.frame(313, "Harbour Tickets: ticket 4711");
  }

  add(seconds, over) {
    const n = (this.entries.at(-1)?.n ?? this.first - 1) + 1;
    this.entries.push({
      n, at: stamp(this.began + seconds * 1000), kind: "frame", tab: 1, url: "https://tickets.example/", title: "", width: 1280, height: 800,
      offset_top: 0, scroll_x: 0, scroll_y: 0, picture: n, label: "", box: null, call_id: "", failed: false, reason: "", ...over,
    });
  }

  frame(seconds, title) {
    this.add(seconds, { title });
  }

  action(seconds, label, call_id, box, failed = false) {
    this.add(seconds, { kind: "action", label, call_id, box, failed });
  }

  info() {
    const frames = this.entries.filter((e) => e.kind === "frame").length;
    const span = this.entries.length > 0 ? { from: this.entries[0].at, to: this.entries.at(-1).at } : {};
    return { on: this.on, bytes: frames * picture.length, limit: 64 << 20, frames, first: this.entries[0]?.n ?? this.first, ...span };
  }

  answer(method, verb, query) {
    const [, asked] = /^browser\/recording(?:\/(\d+))?$/.exec(verb) ?? [verb, null];
    if (asked === null) return null;
    if (method === "DELETE") {
      this.asked.push("erase");
      this.first = this.entries.at(-1).n + 1;
      this.entries = [];
      this.add(AGO, { kind: "gap", reason: "erased", label: "What was recorded before was erased." });
      return [202, { session_id: "" }];
    }
    if (asked !== undefined) {
      this.asked.push(Number(asked));
      const there = this.entries.some((e) => e.n === Number(asked) && e.kind === "frame");
      return there ? [200, picture] : fault(404, "no_picture", "the recording has no such picture");
    }
    const after = Number(query.get("after") ?? 0);
    return [200, { entries: this.entries.filter((e) => e.n > after), more: false, info: this.info() }];
  }
}
