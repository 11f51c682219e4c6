import { randomName } from "./name";
import type {
  About,
  Accepted,
  AnswerRequest,
  BrowserInfo,
  BrowserOutline,
  Container,
  DecisionRequest,
  Dirs,
  Doctor,
  EgressRow,
  EngineContainers,
  ErrorResponse,
  FileView,
  FolderResponse,
  ForkRequest,
  Images,
  Isolation,
  Listing,
  Logs,
  OpenRequest,
  RecordingPage,
  ReleaseRequest,
  Session,
  Snapshot,
  Terminal,
  TerminalRequest,
} from "./types.gen";

/** ApiError is an answer with a status of 400 or more, or none at all (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly field = "",
  ) {
    super(message);
    this.name = "ApiError";
  }
}

/** messageOf says what went wrong, whatever was thrown. */
export function messageOf(err: unknown): string {
  return err instanceof Error ? err.message : String(err);
}

/** The commands on a session that take no body. */
export type Verb = "interrupt" | "attach" | "start" | "stop" | "unpause" | "restart" | "reprovision" | "close" | "retry";

type Fetch = (url: string, init: RequestInit) => Promise<Response>;

const DEADLINE_MS = 20_000;

/** Client calls the server's API. Commands answer before they have an effect: that shows in the events. */
export class Client {
  constructor(
    private readonly token: string,
    private readonly fetch: Fetch = (url, init) => globalThis.fetch(url, init),
  ) {}

  about = () => this.call<About>("GET", "/about");
  doctor = () => this.call<Doctor>("GET", "/doctor");
  sessions = () => this.call<Session[]>("GET", "/sessions");
  container = (id: string) => this.call<Container>("GET", `/sessions/${encodeURIComponent(id)}/container`);
  open = (r: OpenRequest) => this.call<Accepted>("POST", "/sessions", r);
  rename = (id: string, title: string) => this.call<unknown>("PATCH", `/sessions/${encodeURIComponent(id)}`, { title });
  send = (id: string, text: string) => this.command(id, "messages", { text });
  release = (id: string, r: ReleaseRequest) => this.command(id, "release", r);
  decide = (id: string, callID: string, r: DecisionRequest) =>
    this.command(id, `approvals/${encodeURIComponent(callID)}`, r);
  answer = (id: string, callID: string, r: AnswerRequest) =>
    this.command(id, `answers/${encodeURIComponent(callID)}`, r);
  do = (id: string, verb: Verb) => this.command(id, verb, {});
  archive = (id: string, archived: boolean) => this.command(id, "archive", { archived });
  /** snapshot and fork answer when all is copied: they have no deadline. Session.work says how far they are. */
  snapshot = (id: string, name: string) => this.wait<Snapshot>(`${at(id)}/snapshot`, { name });
  fork = (id: string, r: ForkRequest) => this.wait<Accepted>(`${at(id)}/fork`, r);
  cancelWork = (id: string) => this.command(id, "work/cancel", {});
  stopAll = () => this.call<unknown>("POST", "/interrupt", {});

  images = () => this.call<Images>("GET", "/images");
  build = (image: string) => this.call<unknown>("POST", "/images/build", { image });
  cancelBuild = (image: string) => this.call<unknown>("POST", "/images/build/cancel", { image });
  pull = (image: string) => this.call<unknown>("POST", "/images/pull", { image });
  cancelPull = (image: string) => this.call<unknown>("POST", "/images/pull/cancel", { image });
  removeImage = (image: string) => this.call<unknown>("POST", "/images/remove", { image });

  containers = () => this.call<EngineContainers>("GET", "/containers");
  /** attachTo opens a session in a container that is there already, by its name or id. */
  attachTo = (container: string, title: string) => this.call<Accepted>("POST", `${on(container)}/attach`, { title });
  startContainer = (container: string) => this.call<unknown>("POST", `${on(container)}/start`, {});
  stopContainer = (container: string) => this.call<unknown>("POST", `${on(container)}/stop`, {});
  releaseContainer = (container: string, r: ReleaseRequest) => this.call<unknown>("POST", `${on(container)}/release`, r);
  containerLogs = (container: string, tail: number) => this.call<Logs>("GET", `${on(container)}/logs?${query({ tail })}`);

  dirs = (path: string) => this.call<Dirs>("GET", `/dirs?${query({ path })}`);
  makeDir = (path: string) => this.call<Dirs>("POST", "/dirs", { path });

  isolation = (id: string) => this.call<Isolation>("GET", `${at(id)}/isolation`);
  logs = (id: string, tail: number) => this.call<Logs>("GET", `${at(id)}/logs?${query({ tail })}`);

  egress = (id: string, limit: number) => this.call<EgressRow[]>("GET", `${at(id)}/egress?${query({ limit })}`);

  browserOutline = (id: string) => this.call<BrowserOutline>("GET", `${at(id)}/browser/outline`);

  files = (id: string, path: string) => this.call<Listing>("GET", `${at(id)}/files?${query({ path })}`);
  file = (id: string, path: string) => this.call<FileView>("GET", `${at(id)}/files/view?${query({ path })}`);
  /** raw returns a file's bytes: for a picture, or to save. */
  raw = (id: string, path: string, signal?: AbortSignal) => this.blob(`${at(id)}/files/raw?${query({ path })}`, signal);

  terminals = (id: string) => this.call<Terminal[]>("GET", `${at(id)}/terminals`);
  openTerminal = (id: string, r: TerminalRequest) => this.call<Terminal>("POST", `${at(id)}/terminals`, r);
  closeTerminal = (id: string, terminal: string) =>
    this.call<unknown>("DELETE", `${at(id)}/terminals/${encodeURIComponent(terminal)}`);

  browser = (id: string) => this.call<BrowserInfo>("GET", `${at(id)}/browser`);
  startBrowser = (id: string) => this.command(id, "browser/start", {});
  stopBrowser = (id: string) => this.command(id, "browser/stop", {});
  /** recording returns entries after one's number. */
  recording = (id: string, after: number) => this.call<RecordingPage>("GET", `${at(id)}/browser/recording?${query({ after })}`);
  recordingPicture = (id: string, n: number, signal?: AbortSignal) => this.blob(`${at(id)}/browser/recording/${n}`, signal);
  eraseRecording = (id: string) => this.call<unknown>("DELETE", `${at(id)}/browser/recording`);

  /** pickFolder answers when the person has chosen: it has no deadline. */
  pickFolder = (start: string) => this.wait<FolderResponse>("/window/folder", { start });
  openLink = (url: string) => this.call<unknown>("POST", "/window/link", { url });
  notify = (title: string, body: string) => this.call<unknown>("POST", "/window/notify", { title, body });

  private command(id: string, verb: string, body: unknown): Promise<unknown> {
    return this.call<unknown>("POST", `/sessions/${encodeURIComponent(id)}/${verb}`, body);
  }

  private blob(path: string, signal: AbortSignal | undefined): Promise<Blob> {
    return this.request("GET", path, undefined, signal, (answer) => answer.blob());
  }

  /** wait calls without a deadline. */
  private wait<T>(path: string, body: unknown): Promise<T> {
    return this.call<T>("POST", path, body, null);
  }

  private async call<T>(method: string, path: string, body?: unknown, signal: AbortSignal | null = AbortSignal.timeout(DEADLINE_MS)): Promise<T> {
    const text = await this.request(method, path, body, signal, (answer) => answer.text());
    return (text ? JSON.parse(text) : undefined) as T;
  }

  private async request<T>(method: string, path: string, body: unknown, signal: AbortSignal | null | undefined, read: (answer: Response) => Promise<T>): Promise<T> {
    const headers: Record<string, string> = { Authorization: `Bearer ${this.token}` };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (method !== "GET") headers["Idempotency-Key"] = randomName();
    let begun = false;
    const attempt = async (): Promise<T> => {
      begun = false;
      const answer = await this.fetch(`/api/v1${path}`, {
        method,
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
        credentials: "omit",
        cache: "no-store",
        signal,
      });
      begun = true;
      if (!answer.ok) throw failure(answer.status, await answer.text());
      return read(answer);
    };
    try {
      // A browser breaks its requests off whenever a container comes or goes with a network interface of its
      // own, so each is tried twice. A command that had arrived is not carried out again: its key is known.
      return await attempt().catch((err: unknown) => {
        if (err instanceof ApiError) throw err;
        return attempt();
      });
    } catch (err) {
      const name = err instanceof DOMException ? err.name : "";
      if (name === "AbortError" || err instanceof ApiError) throw err;
      const what = name === "TimeoutError" ? "The server did not answer in time." : begun ? "The server's answer broke off." : "The server does not answer.";
      throw new ApiError(0, "unreachable", what);
    }
  }
}

/** at returns the path of a session. */
function at(id: string): string {
  return `/sessions/${encodeURIComponent(id)}`;
}

/** on returns the path of a container of the engine. */
function on(container: string): string {
  return `/containers/${encodeURIComponent(container)}`;
}

function query(of: Record<string, string | number>): string {
  return new URLSearchParams(Object.entries(of).map(([k, v]) => [k, String(v)])).toString();
}

function failure(status: number, text: string): ApiError {
  try {
    const { error } = JSON.parse(text) as Partial<ErrorResponse>;
    if (error) return new ApiError(status, error.code, error.message, error.field);
  } catch {
    // A body that is not ours: the status alone has to do.
  }
  return new ApiError(status, "http", `The server answered with status ${status}.`);
}
