import { type Client, messageOf } from "../api/client";
import type { BrowserRecording, RecordingEntry, RecordingPage } from "../api/types.gen";

/** What is asked of the server. */
export type RecordingServer = Pick<Client, "recording" | "recordingPicture" | "eraseRecording">;

/** Times on the track, in milliseconds. */
const GAP_MS = 2_000; // what a gap takes, however long it was
const ACTION_MS = 1_500; // for which an action is shown
const TICK_MS = 100; // between two moves of the head
/** How many pictures are kept. */
const KEPT = 48;

/** Mark is a point of the track that can be gone to. */
export interface Mark {
  entry: RecordingEntry;
  /** time is when it was, by the session's clock. */
  time: number;
  /** place is where it is on the track, in milliseconds from its beginning; gaps are shorter there than they were. */
  place: number;
}

/** Stretch is a part of the track. */
export interface Stretch {
  from: number;
  to: number;
}

/** Moment is what there is to see at one time. */
export interface Moment {
  /** frame is what the page looked like; null in a gap, or before the first picture. */
  frame: RecordingEntry | null;
  /** gap is why nothing was recorded then. */
  gap: RecordingEntry | null;
  /** action is what the agent did just then. */
  action: RecordingEntry | null;
}

/** Track lays entries out in the order of their times. */
export class Track {
  readonly marks: Mark[];

  constructor(entries: readonly RecordingEntry[]) {
    const timed = entries.map((entry) => ({ entry, time: Date.parse(entry.at), place: 0 }));
    timed.sort((a, b) => a.time - b.time || a.entry.n - b.entry.n);
    let isGap = false;
    let before: Mark | undefined;
    for (const mark of timed) {
      const passed = before ? mark.time - before.time : 0;
      mark.place = (before?.place ?? 0) + (isGap ? Math.min(passed, GAP_MS) : passed);
      if (mark.entry.kind !== "action") isGap = mark.entry.kind === "gap";
      before = mark;
    }
    this.marks = timed;
  }

  /** length is where the last entry is. */
  get length(): number {
    return this.marks.at(-1)?.place ?? 0;
  }

  /** gaps returns where nothing was recorded. */
  gaps(): Stretch[] {
    const all: Stretch[] = [];
    let from = -1;
    for (const m of this.marks) {
      if (m.entry.kind === "gap" && from < 0) from = m.place;
      if (m.entry.kind !== "frame" || from < 0) continue;
      all.push({ from, to: m.place });
      from = -1;
    }
    return all;
  }

  /** ticks returns the actions, the last of those that would be drawn on one another. */
  ticks(most: number): Mark[] {
    const drawn = new Map<number, Mark>();
    for (const m of this.marks) if (m.entry.kind === "action") drawn.set(Math.floor((m.place / (this.length || 1)) * most), m);
    return [...drawn.values()];
  }

  /** index returns the last entry at or before a place, -1 before the first. */
  index(place: number): number {
    let low = 0;
    let high = this.marks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.marks[middle]?.place ?? 0) <= place) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  /** at returns what there is to see at a place. */
  at(place: number): Moment {
    const moment: Moment = { frame: null, gap: null, action: null };
    for (let i = this.index(place); i >= 0; i--) {
      const mark = this.marks[i];
      if (!mark) break;
      if (mark.entry.kind === "action") {
        if (!moment.action && place - mark.place < ACTION_MS) moment.action = mark.entry;
        continue;
      }
      if (mark.entry.kind === "gap") moment.gap = mark.entry;
      else moment.frame = mark.entry;
      break;
    }
    return moment;
  }

  /** time returns the session's time of a place. */
  time(place: number): number {
    const i = this.index(place);
    const mark = this.marks[Math.max(0, i)];
    if (!mark) return 0;
    const next = this.marks[i + 1];
    if (i < 0 || !next || next.place === mark.place) return mark.time;
    return mark.time + ((place - mark.place) * (next.time - mark.time)) / (next.place - mark.place);
  }

  /** step returns the next mark after a place, or the one before it, of those that are chosen; undefined where there is none. */
  step(place: number, by: 1 | -1, chosen: (e: RecordingEntry) => boolean = () => true): Mark | undefined {
    if (by > 0) return this.marks.find((m) => m.place > place && chosen(m.entry));
    return this.marks.findLast((m) => m.place < place && chosen(m.entry));
  }

  /** call returns where a call was made. */
  call(id: string): Mark | undefined {
    return this.marks.find((m) => m.entry.call_id === id);
  }
}

/** Recording is one session's recording and what of it is on the screen. */
export class Recording {
  info = $state.raw<BrowserRecording | null>(null);
  track = $state.raw(new Track([]));
  /** fault says why it could not be read. */
  fault = $state("");
  /** place is the head's, on the track. */
  place = $state(0);
  /** follows says that the head stays at the end, where what is new comes. */
  follows = $state(true);
  isPlaying = $state(false);
  speed = $state(1);
  isErasing = $state(false);
  /** picture is the address of the newest picture that was fetched for the head. */
  picture = $state("");
  /** pictured is the number of that picture. */
  pictured = $state(0);
  /** lost says that the picture for the head is not there any more. */
  lost = $state(false);

  readonly moment = $derived(this.track.at(this.place));
  readonly time = $derived(this.track.time(this.place));

  private entries: RecordingEntry[] = [];
  private reading: Promise<void> | undefined;
  /** wanted is a call that is gone to once it is known. */
  private wanted = $state("");
  private timer: ReturnType<typeof setInterval> | undefined;
  private readonly pictures = new Map<number, string>();

  constructor(
    private readonly server: RecordingServer,
    private readonly session: string,
    private readonly address: (picture: Blob) => string = (b) => URL.createObjectURL(b),
    private readonly forget: (address: string) => void = (a) => URL.revokeObjectURL(a),
  ) {}

  /** read fetches what is new. */
  read(): Promise<void> {
    this.reading ??= this.fetch().finally(() => (this.reading = undefined));
    return this.reading;
  }

  private async fetch(): Promise<void> {
    try {
      let page: RecordingPage;
      const fresh: RecordingEntry[] = [];
      do {
        page = await this.server.recording(this.session, fresh.at(-1)?.n ?? this.entries.at(-1)?.n ?? 0);
        fresh.push(...(page.entries ?? []));
      } while (page.more && page.entries?.length);
      this.take(page.info, fresh);
      this.fault = "";
    } catch (err) {
      this.fault = messageOf(err);
    }
  }

  /** take folds what came in: old entries go with what the server has dropped. */
  private take(info: BrowserRecording, fresh: readonly RecordingEntry[]): void {
    const isShorter = (this.entries[0]?.n ?? info.first) < info.first;
    this.info = info;
    if (fresh.length === 0 && !isShorter) return;
    const head = this.time;
    const kept = isShorter ? this.entries.filter((e) => e.n >= info.first) : this.entries;
    if (kept.length === 0) this.follows = true; // nothing is left of what was looked at
    this.entries = [...kept, ...fresh];
    this.track = new Track(this.entries);
    if (isShorter) this.drop(info.first);
    if (this.follows) this.place = this.track.length;
    else this.place = this.placeOf(head);
    if (this.wanted) this.seekCall(this.wanted);
  }

  /** placeOf returns where a time is on the track. */
  private placeOf(time: number): number {
    const i = this.track.marks.findLastIndex((m) => m.time <= time);
    const mark = this.track.marks[i];
    if (!mark) return 0;
    const next = this.track.marks[i + 1];
    if (!next || next.time === mark.time) return mark.place;
    return mark.place + ((time - mark.time) * (next.place - mark.place)) / (next.time - mark.time);
  }

  seek(place: number): void {
    this.place = Math.min(Math.max(0, place), this.track.length);
    this.follows = this.place === this.track.length;
    this.wanted = "";
  }

  /** seekCall goes to where a call was made, as soon as that is known. */
  seekCall(id: string): void {
    const mark = this.track.call(id);
    this.wanted = mark ? "" : id;
    if (!mark) return;
    this.pause();
    this.seek(mark.place);
  }

  /** missing is a call that was asked for and is not in what was read. */
  get missing(): boolean {
    return this.wanted !== "" && this.info !== null;
  }

  /** step goes to the next entry, or the one before; of the actions alone where that is said. */
  step(by: 1 | -1, actions = false): void {
    const mark = this.track.step(this.place, by, actions ? (e) => e.kind === "action" : undefined);
    if (mark) this.seek(mark.place);
    else if (!actions) this.seek(by > 0 ? this.track.length : 0);
  }

  /** play moves the head, from the beginning where it is at the end. */
  play(): void {
    if (this.isPlaying || this.track.length === 0) return;
    if (this.place >= this.track.length) this.seek(0);
    this.isPlaying = true;
    this.timer = setInterval(() => {
      this.seek(this.place + TICK_MS * this.speed);
      if (this.place >= this.track.length) this.pause();
    }, TICK_MS);
  }

  pause(): void {
    this.isPlaying = false;
    clearInterval(this.timer);
  }

  /** show fetches the picture for the head, and the one that comes next. */
  async show(signal: AbortSignal): Promise<void> {
    const frame = this.moment.frame;
    if (!frame) return;
    const address = await this.load(frame.picture, signal);
    if (signal.aborted) return;
    this.lost = address === "";
    if (!address) return;
    this.picture = address;
    this.pictured = frame.picture;
    const next = this.track.step(this.place, 1, (e) => e.kind === "frame");
    if (next) await this.load(next.entry.picture, signal);
  }

  private async load(n: number, signal: AbortSignal): Promise<string> {
    let address = this.pictures.get(n);
    if (!address) {
      try {
        address = this.address(await this.server.recordingPicture(this.session, n, signal));
      } catch {
        return "";
      }
    }
    this.pictures.delete(n); // the newest last
    this.pictures.set(n, address);
    for (const [old, a] of this.pictures) {
      if (this.pictures.size <= KEPT) break;
      if (old === this.pictured || old === n) continue;
      this.pictures.delete(old);
      this.forget(a);
    }
    return address;
  }

  /** drop forgets the pictures that the server has dropped. */
  private drop(first: number): void {
    for (const [n, a] of this.pictures) {
      if (n >= first) continue;
      this.pictures.delete(n);
      this.forget(a);
      if (n !== this.pictured) continue;
      this.picture = "";
      this.pictured = 0;
    }
  }

  /** erase removes all that was recorded so far. */
  async erase(): Promise<void> {
    this.isErasing = true;
    try {
      await this.server.eraseRecording(this.session);
      await this.reading;
      await this.read();
    } catch (err) {
      this.fault = messageOf(err);
    } finally {
      this.isErasing = false;
    }
  }

  /** close ends what it does by itself, and forgets its pictures. */
  close(): void {
    this.pause();
    this.drop(Infinity);
  }
}
