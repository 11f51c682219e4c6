import type { Condition, EngineContainer, State } from "../api/types.gen";
import { count } from "../text/format";

/** Whose a container is. */
export type Owner = "session" | "orphan" | "stranger" | "instance";
export const OWNERS: readonly Owner[] = ["session", "orphan", "stranger", "instance"];

/** Which containers are shown by their state. */
export type Kept = "any" | "running" | "stopped";

export interface ContainerFilter {
  query: string;
  owner: Owner | "";
  kept: Kept;
}

export interface OwnerGroup {
  owner: Owner;
  containers: EngineContainer[];
}

export function ownerOf(c: EngineContainer): Owner {
  return OWNERS.find((o) => o === c.owner) ?? "stranger";
}

/** isNamed reports whether a name is that of a container, or its id, short or whole. */
export function isNamed(c: EngineContainer, name: string): boolean {
  return name !== "" && (name === c.short_id || name === c.name || name === c.id);
}

/** runs reports whether a container has processes now, frozen ones too. */
export function runs(value: State): boolean {
  return value === "ready" || value === "paused" || value === "unreachable";
}

/** THERE are the states of a sandbox that is there, whether or not it runs or answers. */
export const THERE: readonly State[] = ["ready", "stopped", "paused", "unreachable"];

/** isCalledOff reports whether somebody stopped the making of a sandbox: nothing went wrong with it. */
export function isCalledOff(c: Pick<Condition, "value" | "cause"> | null | undefined): boolean {
  return c?.value === "failed" && c.cause === "stopped before it was ready";
}

/** isThere reports whether a sandbox in a state is there; before there is one, it is not. */
export function isThere(value: State | undefined): boolean {
  return value !== undefined && THERE.includes(value);
}

/** sift returns the containers that a filter lets through. titles are those of sessions, by id: a container is found by them too. */
export function sift(list: readonly EngineContainer[], { query, owner, kept }: ContainerFilter, titles: ReadonlyMap<string, string>): EngineContainer[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return list.filter((c) => {
    if (owner !== "" && ownerOf(c) !== owner) return false;
    if (kept !== "any" && runs(c.condition.value) !== (kept === "running")) return false;
    if (words.length === 0) return true;
    const text = [c.name, c.id, c.image, ...(c.ports ?? []), ...(c.sessions ?? []).map((id) => titles.get(id) ?? "")].join("\n").toLowerCase();
    return words.every((w) => text.includes(w));
  });
}

/** grouped puts the containers of one owner together, those of our sessions first, in their order otherwise. */
export function grouped(list: readonly EngineContainer[]): OwnerGroup[] {
  return OWNERS.map((owner) => ({ owner, containers: list.filter((c) => ownerOf(c) === owner) })).filter((g) => g.containers.length > 0);
}

/** What can be done with a container, and why not where it cannot: "" means that it can. */
export interface Offers {
  attach: string;
  start: string;
  unpause: string;
  stop: string;
  release: string;
  shell: string;
  logs: string;
}

/** offersOf says what makes sense with a container, by whose it is and how it is. */
export function offersOf(c: EngineContainer): Offers {
  const value = c.condition.value;
  const owner = ownerOf(c);
  const foreign = owner === "instance" ? "It belongs to another Glovebox on this engine: use that one" : "";
  const asleep = value === "paused" ? "It is paused: unpause it first" : value === "ready" ? "" : `It must run: it is ${value}`;
  return {
    attach: foreign || (c.kept ? "" : asleep), // its session starts it too
    start: foreign || (value === "stopped" ? "" : value === "paused" ? "It is paused, not stopped" : "It runs already"),
    unpause: foreign || (value === "paused" ? "" : "It is not paused"),
    stop: foreign || (runs(value) ? "" : "It does not run"),
    release: foreign || (owner === "stranger" ? "Nothing of ours is in it" : ""),
    shell: foreign || (c.kept ? "" : asleep),
    logs: "",
  };
}

/** releaseText says what letting go of a container does to it. */
export function releaseText(c: EngineContainer): string {
  const guests = (c.sessions ?? []).length - (c.session_id ? 1 : 0);
  if (c.kept) return "It is removed for good: its session let go of it and kept it";
  if (ownerOf(c) === "orphan") return "It is removed: no session has it";
  if (!c.session_id) return `${count(guests, "session")} let go of it: the guest is taken out, and what was changed in it stays`;
  if (guests > 0) return `Its session and ${count(guests, "guest")} let go of it, and it is removed; the workspace stays`;
  return "It is removed; the workspace stays";
}

/** newest returns which of two readings of a sandbox's state was observed last: the one that is told later, of two at once. */
export function newest(known: Condition | null, told: Condition | null): Condition | null {
  return known && told && Date.parse(known.observed_at) > Date.parse(told.observed_at) ? known : told;
}
