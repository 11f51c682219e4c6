import type { Actor, CallStatus, Where } from "../api/types.gen";
import { Output } from "./output.svelte";

/** What happens to a call before it has a result, and then its result. */
export type CallState = "queued" | "waiting" | "running" | CallStatus;

/** Call is a tool call, from the wish of the model to its result. */
export class Call {
  readonly kind = "call";
  tool = $state("");
  input = $state.raw<unknown>(null);
  actor = $state<Actor>("agent");
  state = $state<CallState>("queued");
  where = $state.raw<Where | null>(null);
  /** reason says why it waits, or why it was denied. */
  reason = $state("");
  /** decided is what a person said, once they did. */
  decided = $state<"" | "allowed" | "denied">("");
  startedAt = $state("");
  /** took is in nanoseconds. */
  took = $state(0);
  text = $state("");
  display = $state.raw<unknown>(null);
  readonly output = new Output();

  constructor(readonly id: string) {}

  get over(): boolean {
    return !["queued", "waiting", "running"].includes(this.state);
  }
}

/** Note is a thin row: something that happened beside the conversation. */
export interface Note {
  kind: "note";
  id: string;
  tone: "plain" | "good" | "warn" | "bad";
  icon: "sandbox" | "stop" | "error" | "done" | "info" | "link";
  text: string;
  detail: string;
  at: string;
}

/** Message is what a person, the model or the host said. */
export interface Message {
  kind: "message";
  id: string;
  from: "user" | "assistant" | "host";
  text: string;
  at: string;
}

export type Item = Call | Note | Message;
