import type { Event, Kind, Payloads } from "./types.gen";

/** A decoded event: its kind says what its body is. */
export type Known = { [K in Kind & keyof Payloads]: { kind: K; body: Payloads[K] } }[Kind & keyof Payloads];

/** payload gives an event's body the type that its kind names. The server wrote it from that very struct. */
export function payload(e: Event): Known {
  return { kind: e.kind, body: e.body } as Known;
}
