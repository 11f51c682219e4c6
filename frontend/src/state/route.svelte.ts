/** The panels of the dock, in the order of their tabs. */
export const PANELS = ["container", "browser", "terminal", "files", "network"] as const;
export type Panel = (typeof PANELS)[number];

/** Shown is a session with what is open beside its timeline. */
export interface Shown {
  id: string;
  /** panel is the one in the dock; without it the dock is closed. */
  panel?: Panel;
  /** path is the file that the files panel shows. */
  path?: string;
  /** below is the panel in the dock's lower half. */
  below?: Panel;
  /** call is the card to scroll to. */
  call?: string;
  /** moment is the call whose moment of the browser's recording is shown. */
  moment?: string;
}

/**
 * The places that an address can name: the start, the new-session form over whatever is shown, the checks, the
 * engine's containers and the one of them that is unfolded, a session, or one panel of it in a window of its own.
 */
export type Route =
  | { at: "home" }
  | { at: "new" }
  | { at: "doctor" }
  | { at: "containers"; name?: string }
  | ({ at: "session" } & Shown)
  | { at: "panel"; id: string; panel: Panel; path?: string };

/** parseRoute reads the fragment of an address. What it does not know is the start. */
export function parseRoute(hash: string): Route {
  if (hash === "#/new") return { at: "new" };
  if (hash === "#/doctor") return { at: "doctor" };
  const engine = /^#\/containers(?:\/([^/?]+))?\/?$/.exec(hash);
  if (engine) {
    const name = decoded(engine[1] ?? "");
    return { at: "containers", ...(name && { name }) };
  }
  const found = /^#\/([sp])\/([^/?]+)(?:\/([a-z]+)(?:\/([^?]*))?)?\/?(?:\?(.*))?$/.exec(hash);
  if (!found) return { at: "home" };
  const [, kind, rawID = "", rawPanel, rawPath, rawQuery] = found;
  const id = decoded(rawID);
  if (!id) return { at: "home" };
  const panel = panelOf(rawPanel);
  const path = (panel === "files" && decoded(rawPath ?? "")) || undefined;
  if (kind === "p") return panel ? { at: "panel", id, panel, ...(path && { path }) } : { at: "session", id };
  const query = new URLSearchParams(rawQuery);
  const below = panelOf(query.get("below"));
  const call = query.get("call");
  const moment = panel === "browser" && query.get("moment");
  return {
    at: "session",
    id,
    ...(panel && { panel }),
    ...(path && { path }),
    ...(panel && below && below !== panel && { below }),
    ...(call && { call }),
    ...(moment && { moment }),
  };
}

/** href returns the address of a place. */
export function href(r: Route): string {
  if (r.at === "home") return "#/";
  if (r.at === "new" || r.at === "doctor") return `#/${r.at}`;
  if (r.at === "containers") return r.name ? `#/containers/${encodeURIComponent(r.name)}` : "#/containers";
  const file = r.panel === "files" && r.path ? `/${r.path.split("/").map(encodeURIComponent).join("/")}` : "";
  const place = `${encodeURIComponent(r.id)}${r.panel ? `/${r.panel}${file}` : ""}`;
  if (r.at === "panel") return `#/p/${place}`;
  const query = new URLSearchParams();
  if (r.panel && r.below && r.below !== r.panel) query.set("below", r.below);
  if (r.call) query.set("call", r.call);
  if (r.panel === "browser" && r.moment) query.set("moment", r.moment);
  return `#/s/${place}${query.size > 0 ? `?${query}` : ""}`;
}

function panelOf(text: string | null | undefined): Panel | undefined {
  return PANELS.find((p) => p === text);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

/** Router follows the address: the only source of what is selected. */
export class Router {
  /** route is the page; the new-session form lies over it and does not change it. */
  route = $state.raw<Exclude<Route, { at: "new" }>>({ at: "home" });
  /** creating says that the address names the form. */
  creating = $state(false);
  /** followed is the fragment that route and creating are of. */
  private followed: string | null = null;

  /** start follows the address from now on. arrive is called with each change of it, before it is read. */
  start(arrive: () => void): () => void {
    const follow = (): void => {
      if (location.hash === this.followed) return;
      arrive();
      this.follow();
    };
    this.follow();
    addEventListener("hashchange", follow);
    // A busy page hears late that its address changed: the next key or click is meant for the place of the new one.
    for (const next of ["keydown", "click"]) addEventListener(next, follow, true);
    return () => {
      removeEventListener("hashchange", follow);
      for (const next of ["keydown", "click"]) removeEventListener(next, follow, true);
    };
  }

  go(r: Route): void {
    location.hash = href(r);
  }

  /** swap goes to a place that takes the present one's step in the history. */
  swap(r: Exclude<Route, { at: "new" }>): void {
    history.replaceState(history.state, "", href(r));
    this.followed = location.hash;
    this.route = r;
    this.creating = false;
  }

  /** create opens the form over the page. */
  create(): void {
    this.go({ at: "new" });
  }

  /** uncreate closes the form, unless the address leads elsewhere already: the route follows it a moment later. */
  uncreate(): void {
    if (location.hash === href({ at: "new" })) this.swap(this.route);
  }

  /** id is the session that the address names, in whatever form. */
  get id(): string {
    return "id" in this.route ? this.route.id : "";
  }

  /** path is the file that the address names. */
  get path(): string {
    return ("id" in this.route && this.route.path) || "";
  }

  /** moment is the call whose moment of the recording the address names. */
  get moment(): string {
    return (this.route.at === "session" && this.route.moment) || "";
  }

  /** show opens a panel beside the session, or puts another one into the window that has only one. */
  show(panel: Panel, path?: string): void {
    const r = this.route;
    if (!("id" in r)) return;
    if (r.at === "panel") return this.go({ at: "panel", id: r.id, panel, path });
    // What is opened from the other half trades places with it.
    const below = r.below === panel ? r.panel : r.below;
    this.go({ at: "session", id: r.id, panel, path: path ?? (panel === r.panel ? r.path : undefined), below });
  }

  /** showBelow opens a panel in the dock's lower half; without one the half goes. */
  showBelow(panel?: Panel): void {
    const r = this.route;
    if (r.at !== "session" || !r.panel) return;
    const above = panel === r.panel ? (r.below ?? r.panel) : r.panel;
    this.go({ at: "session", id: r.id, panel: above, path: r.path, below: panel });
  }

  /** hide closes the dock. */
  hide(): void {
    if (this.route.at === "session") this.go({ at: "session", id: this.route.id });
  }

  /** follow goes to the place of the address. */
  private follow(): void {
    this.followed = location.hash;
    const r = parseRoute(this.followed);
    this.creating = r.at === "new";
    if (r.at !== "new") this.route = r;
  }
}
