import type { Actor, CallStatus, Image, Question, Where } from "../api/types.gen";
import { Output } from "./output.svelte";

/** What happens to a call before it has a result, and then its result. */
export type CallState = "queued" | "waiting" | "running" | CallStatus;

/** What is known of a call. */
interface Facts {
  tool: string;
  input: unknown;
  actor: Actor;
  state: CallState;
  where: Where | null;
  /** reason says why it waits, or why it was denied. */
  reason: string;
  /** decided is what a person said, once they did. */
  decided: "" | "allowed" | "denied";
  /** question is what the call asks the person; null for one that is made. */
  question: Question | null;
  /** answer is what the person said, once they did. */
  answer: { text: string; declined: boolean } | null;
  startedAt: string;
  /** made is false for a call that is known to have run nowhere: one that was denied or refused, or whose sandbox or browser was not to be had. */
  made: boolean;
  /** subtask is what the call has handed its work to; null for one that does its own. */
  subtask: Subtask | null;
  /** took is in nanoseconds. */
  took: number;
  text: string;
  images: Image[];
  display: unknown;
}

/** Subtask is a task that a call has handed its work to, and what is known of it. */
export interface Subtask {
  agent: string;
  description: string;
  timeline: {
    readonly items: readonly Item[];
    readonly thinking: boolean;
  };
}

const nothing: Facts = {
  tool: "",
  input: null,
  actor: "agent",
  state: "queued",
  where: null,
  reason: "",
  decided: "",
  question: null,
  answer: null,
  startedAt: "",
  made: true,
  subtask: null,
  took: 0,
  text: "",
  images: [],
  display: null,
};

/** Call is a tool call, from the wish of the model to its result. A long timeline has tens of thousands: each is one signal. */
export class Call {
  readonly kind = "call";
  readonly output = new Output();
  private facts = $state.raw<Facts>(nothing);

  constructor(readonly id: string) {}

  learn(of: Partial<Facts>): void {
    this.facts = { ...this.facts, ...of };
  }

  get tool(): string {
    return this.facts.tool;
  }
  get input(): unknown {
    return this.facts.input;
  }
  get actor(): Actor {
    return this.facts.actor;
  }
  get state(): CallState {
    return this.facts.state;
  }
  /** isToldApart says that a line of the card tells how it ended, with its text: that is not told again. */
  get isToldApart(): boolean {
    return ["denied", "unknown", "lost"].includes(this.facts.state);
  }
  get where(): Where | null {
    return this.facts.where;
  }
  get reason(): string {
    return this.facts.reason;
  }
  get decided(): Facts["decided"] {
    return this.facts.decided;
  }
  get question(): Question | null {
    return this.facts.question;
  }
  get answer(): Facts["answer"] {
    return this.facts.answer;
  }
  get subtask(): Subtask | null {
    return this.facts.subtask;
  }
  /** asks says that the call, or one that a subtask of it makes, waits for a person. */
  get asks(): boolean {
    if (this.facts.state === "waiting") return true;
    return !this.over && (this.facts.subtask?.timeline.items.some((i) => i.kind === "call" && i.asks) ?? false);
  }
  get startedAt(): string {
    return this.facts.startedAt;
  }
  get made(): boolean {
    return this.facts.made;
  }
  get took(): number {
    return this.facts.took;
  }
  get text(): string {
    return this.facts.text;
  }
  get images(): Image[] {
    return this.facts.images;
  }
  get display(): unknown {
    return this.facts.display;
  }

  get over(): boolean {
    return !["queued", "waiting", "running"].includes(this.facts.state);
  }
}

/** Note is a thin row: something that happened beside the conversation. */
export interface Note {
  kind: "note";
  id: string;
  tone: "plain" | "good" | "warn" | "bad";
  icon: "sandbox" | "stop" | "error" | "done" | "info" | "link" | "retry" | "sum" | "hand";
  text: string;
  detail: string;
  /** whole is what text has the beginning of. */
  whole?: string;
  at: string;
  /** until is when the model is asked again, while that is to come. */
  until?: string;
}

/** Message is what a person, the model or the host said. */
export interface Message {
  kind: "message";
  id: string;
  from: "user" | "assistant" | "host";
  text: string;
  at: string;
}

/** Thought is what the model thought before what follows it. */
export interface Thought {
  kind: "thought";
  id: string;
  /** text is empty where the model's server keeps it to itself. */
  text: string;
  /** took is in nanoseconds. */
  took: number;
  /** open says that it was read while it came, and stays so. */
  open: boolean;
}

export type Item = Call | Note | Message | Thought;
