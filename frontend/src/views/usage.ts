import type { Usage } from "../api/types.gen";

/** tokensText writes what a session used, "" when that is nothing. */
export function tokensText(u: Usage): string {
  const all = u.input + u.output + u.cache_read + u.cache_write;
  return all > 0 ? `${short(all)} tokens` : "";
}

/** costText writes a price in dollars, "" when it is not known. */
export function costText(usd: number | null): string {
  if (usd === null) return "";
  if (usd > 0 && usd < 0.01) return "<$0.01";
  return `$${usd.toFixed(2)}`;
}

function short(n: number): string {
  if (n < 1_000) return String(n);
  if (n < 1_000_000) return `${(n / 1_000).toFixed(n < 10_000 ? 1 : 0)}k`;
  return `${(n / 1_000_000).toFixed(1)}M`;
}
