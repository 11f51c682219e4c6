import type { Session, Wall } from "../api/types.gen";

/** Which sessions the list shows. */
export type Kept = "all" | "running" | "waiting" | "idle" | "ended" | "archived";

export interface Filter {
  query: string;
  kept: Kept;
  /** wall is "" for every one. */
  wall: Wall | "";
}

export interface Group {
  title: string;
  sessions: Session[];
}

/** sift returns the sessions that a filter lets through, in their order. */
export function sift(sessions: readonly Session[], { query, kept, wall }: Filter): Session[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return sessions.filter((s) => isKept(s, kept) && (wall === "" || s.wall === wall) && matches(s, words));
}

function isKept(s: Session, kept: Kept): boolean {
  if (kept === "archived") return s.archived;
  if (s.archived) return false;
  return kept === "all" || s.status === kept;
}

/** matches reports whether every word is somewhere in what tells a session from others. */
function matches(s: Session, words: string[]): boolean {
  if (words.length === 0) return true;
  const text = [s.title, s.goal, s.id, s.short_id, s.workspace, s.model].join("\n").toLowerCase();
  return words.every((w) => text.includes(w));
}

/** counts says how many sessions each choice would show. */
export function counts(sessions: readonly Session[]): Record<Kept, number> {
  const n: Record<Kept, number> = { all: 0, running: 0, waiting: 0, idle: 0, ended: 0, archived: 0 };
  for (const s of sessions) {
    if (s.archived) n.archived++;
    else {
      n.all++;
      n[s.status]++;
    }
  }
  return n;
}

/** grouped puts what waits for the person first, then the others by the day they began. */
export function grouped(sessions: readonly Session[], now: number): Group[] {
  const groups: Group[] = [];
  const waiting = sessions.filter((s) => s.status === "waiting");
  if (waiting.length > 0) groups.push({ title: "Waiting for you", sessions: waiting });
  const days = dayNames(now);
  for (const s of sessions) {
    if (s.status === "waiting") continue;
    const title = days(s.created_at);
    const last = groups.at(-1);
    if (last?.title === title) last.sessions.push(s);
    else groups.push({ title, sessions: [s] });
  }
  return groups;
}

/** head cuts groups after so many sessions. */
export function head(groups: readonly Group[], limit: number): Group[] {
  const list: Group[] = [];
  let left = limit;
  for (const g of groups) {
    if (left <= 0) break;
    list.push({ title: g.title, sessions: g.sessions.slice(0, left) });
    left -= g.sessions.length;
  }
  return list;
}

const DAY_MS = 86_400_000;

/** dayNames returns what names the day of a time, seen from now. Making a date's format is slow, so it is made once. */
function dayNames(now: number): (at: string) => string {
  const today = new Date(now).setHours(0, 0, 0, 0);
  const month = new Intl.DateTimeFormat("en", { month: "long" });
  const longAgo = new Intl.DateTimeFormat("en", { month: "long", year: "numeric" });
  return (at) => {
    const time = Date.parse(at);
    if (time >= today) return "Today";
    if (time >= today - DAY_MS) return "Yesterday";
    if (time >= today - 6 * DAY_MS) return "This week";
    return new Date(time).getFullYear() === new Date(now).getFullYear() ? month.format(time) : longAgo.format(time);
  };
}
