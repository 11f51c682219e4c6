import type {
  About,
  Accepted,
  Container,
  DecisionRequest,
  Doctor,
  ErrorResponse,
  OpenRequest,
  ReleaseRequest,
  Session,
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

/** The commands on a session that take no body. */
export type Verb = "interrupt" | "attach" | "start" | "stop" | "reprovision" | "close";

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
  answer = (id: string, callID: string, r: DecisionRequest) =>
    this.command(id, `approvals/${encodeURIComponent(callID)}`, r);
  do = (id: string, verb: Verb) => this.command(id, verb, {});
  buildTinyImage = () => this.call<unknown>("POST", "/images/tiny", {});

  private command(id: string, verb: string, body: unknown): Promise<unknown> {
    return this.call<unknown>("POST", `/sessions/${encodeURIComponent(id)}/${verb}`, body);
  }

  private async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const headers: Record<string, string> = { Authorization: `Bearer ${this.token}` };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const request = (): Promise<Response> =>
      this.fetch(`/api/v1${path}`, {
        method,
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
        credentials: "omit",
        cache: "no-store",
        signal: AbortSignal.timeout(DEADLINE_MS),
      });
    let answer: Response;
    try {
      // A browser breaks its requests off whenever a container comes or goes with a network interface of its
      // own, so a read is tried twice. A command is not: it may have arrived.
      answer = method === "GET" ? await request().catch(request) : await request();
    } catch (err) {
      const late = err instanceof DOMException && err.name === "TimeoutError";
      throw new ApiError(0, "unreachable", late ? "The server did not answer in time." : "The server does not answer.");
    }
    const text = await answer.text();
    if (!answer.ok) throw failure(answer.status, text);
    return (text ? JSON.parse(text) : undefined) as T;
  }
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
