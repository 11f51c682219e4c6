/** The places that an address can name. */
export type Route = { at: "home" } | { at: "session"; id: string };

/** parseRoute reads the fragment of an address. What it does not know is the start. */
export function parseRoute(hash: string): Route {
  const id = /^#\/s\/([^/?]+)/.exec(hash)?.[1];
  if (!id) return { at: "home" };
  try {
    return { at: "session", id: decodeURIComponent(id) };
  } catch {
    return { at: "home" };
  }
}

/** href returns the address of a place. */
export function href(r: Route): string {
  return r.at === "home" ? "#/" : `#/s/${encodeURIComponent(r.id)}`;
}

/** Router follows the address: the only source of what is selected. */
export class Router {
  route = $state.raw<Route>({ at: "home" });

  start(): () => void {
    const read = (): void => {
      this.route = parseRoute(location.hash);
    };
    read();
    addEventListener("hashchange", read);
    return () => removeEventListener("hashchange", read);
  }

  go(r: Route): void {
    location.hash = href(r);
  }
}
