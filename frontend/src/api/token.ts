/** Where the token of this tab is kept: it ends with the tab. */
const KEY = "glovebox.token";

/** The parts of a window that hold or show the token. */
export interface TokenPlace {
  location: { hash: string; pathname: string; search: string };
  history: { replaceState(data: unknown, unused: string, url: string): void };
  sessionStorage: Pick<Storage, "getItem" | "setItem" | "removeItem">;
}

/**
 * takeToken returns the token of this tab. One that the address carries
 * (#token=HEX) is kept and wiped from the address and the history.
 */
export function takeToken(w: TokenPlace): string {
  const given = /^#token=([^&]*)(?:&(.*))?$/.exec(w.location.hash);
  if (given) {
    const token = decodeURIComponent(given[1] ?? "").trim();
    if (token) w.sessionStorage.setItem(KEY, token);
    const rest = given[2] ? `#${given[2]}` : "";
    w.history.replaceState(null, "", w.location.pathname + w.location.search + rest);
  }
  return w.sessionStorage.getItem(KEY) ?? "";
}

/** tokenOf finds a token in what a person pasted: the token itself or the whole URL. */
export function tokenOf(pasted: string): string {
  const text = pasted.trim();
  const found = /#token=([0-9A-Za-z_-]+)/.exec(text);
  return found?.[1] ?? text;
}

export function keepToken(w: TokenPlace, token: string): void {
  w.sessionStorage.setItem(KEY, token);
}

export function forgetToken(w: TokenPlace): void {
  w.sessionStorage.removeItem(KEY);
}
