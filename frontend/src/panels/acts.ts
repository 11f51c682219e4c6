import type { Session, State } from "../api/types.gen";
import { THERE } from "../state/engine";
import { isGoneForGood } from "../views/words";

/** What can be done with a sandbox, and why not where it cannot: "" means that it can. */
export interface Acts {
  shell: string;
  attach: string;
  start: string;
  unpause: string;
  stop: string;
  restart: string;
  release: string;
  reprovision: string;
  snapshot: string;
  fork: string;
  logs: string;
}

const GONE: State[] = ["lost", "released", "failed", "detached"];

/** actsOf says what makes sense in the state that a session's sandbox is in. */
export function actsOf(session: Session, state: State | undefined): Acts {
  const all = (why: string): Acts => ({
    shell: why, attach: why, start: why, unpause: why, stop: why, restart: why, release: why, reprovision: why, snapshot: why, fork: why, logs: why,
  });
  if (session.wall === "local") return { ...all("There is no sandbox: commands run on this machine"), shell: "" };
  if (!state) return all("There is no sandbox yet");
  if (state === "allocating" || state === "releasing") return all(`Wait: the sandbox is ${state}`);
  const ended = session.status === "ended" ? "The session has ended" : "";
  const only = (states: readonly State[], why: string): string => (states.includes(state) ? "" : why);
  const here = only(THERE, `The sandbox is ${state === "detached" ? "let go of" : state}`);
  // What is somebody else's is neither stopped nor started by us.
  const theirs = session.wall === "remote" ? "The other side runs it" : "";
  const found = theirs || (session.adopted ? "The container was there before us: stop it in the Containers view" : "");
  const commit =
    session.wall !== "docker" ? "Only a container can be kept as an image" : session.adopted ? "The container was there before us, and is not paused for it: docker commit makes an image of it" : "";
  return {
    shell: ended || only(["ready"], here || `It must run: it is ${state}`),
    attach: ended || only([...THERE, "detached"], here) || (state === "ready" ? "It is attached" : state === "paused" ? "It is paused: unpause it" : ""),
    start: ended || here || theirs || only(["stopped"], "It is not stopped"),
    unpause: ended || here || only(["paused"], "It is not paused"),
    stop: here || found || only(["ready", "paused"], state === "stopped" ? "It is stopped" : "It does not answer"),
    restart: ended || here || found || only(["ready", "stopped", "paused"], "It does not answer: attach it"),
    release: here,
    reprovision: ended || (isGoneForGood(session, session.sandbox) ? "The container was there before us, and is gone: open a new session" : "") || only(GONE, "Only for a sandbox that is gone: release it first"),
    snapshot: commit || here || only(["ready", "stopped", "paused"], "It does not answer"),
    fork: "",
    logs: only([...THERE, "failed"], here),
  };
}
