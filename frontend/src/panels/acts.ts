import type { Session, State } from "../api/types.gen";

/** What can be done with a sandbox, and why not where it cannot: "" means that it can. */
export interface Acts {
  shell: string;
  attach: string;
  start: string;
  stop: string;
  restart: string;
  release: string;
  reprovision: string;
  logs: string;
}

const GONE: State[] = ["lost", "released", "failed", "detached"];
const THERE: State[] = ["ready", "stopped", "paused", "unreachable"];

/** actsOf says what makes sense in the state that a session's sandbox is in. */
export function actsOf(session: Session, state: State | undefined): Acts {
  const all = (why: string): Acts => ({ shell: why, attach: why, start: why, stop: why, restart: why, release: why, reprovision: why, logs: why });
  if (session.wall === "local") return { ...all("There is no sandbox: commands run on this machine"), shell: "" };
  if (!state) return all("There is no sandbox yet");
  if (state === "allocating" || state === "releasing") return all(`Wait: the sandbox is ${state}`);
  const ended = session.status === "ended" ? "The session has ended" : "";
  const only = (states: State[], why: string): string => (states.includes(state) ? "" : why);
  const here = only(THERE, `The sandbox is ${state === "detached" ? "let go of" : state}`);
  return {
    shell: ended || only(["ready"], here || `It must run: it is ${state}`),
    attach: ended || here || (state === "ready" ? "It is attached" : ""),
    start: ended || here || only(["stopped"], "It is not stopped"),
    stop: here || only(["ready", "paused"], state === "stopped" ? "It is stopped" : "It does not answer"),
    restart: ended || here || only(["ready", "stopped", "paused"], "It does not answer: attach it"),
    release: here,
    reprovision: ended || only(GONE, "Only for a sandbox that is gone: release it first"),
    logs: only([...THERE, "failed"], here),
  };
}
