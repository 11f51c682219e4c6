import type { EgressDecided, EgressRow } from "../api/types.gen";
import { shellQuote } from "../text/format";

/** How many different decisions are kept; the oldest go first. The log has them all. */
const KEPT = 500;

/** Decision is what was decided about one host and port, with all that followed from it. */
export interface Decision {
  key: string;
  host: string;
  port: number;
  /** address that the name last stood for; "" for none. */
  address: string;
  protocol: string;
  allowed: boolean;
  reason: string;
  count: number;
  /** failed of the allowed ones were not connected. */
  failed: number;
  error: string;
  sent: number;
  received: number;
  /** at is when it was decided last. */
  at: string;
}

/** Egress is the fold of what a sandbox asked of the network. Equal decisions are one row: their sums are exact. */
export class Egress {
  private readonly rows = new Map<string, Decision>();
  private readonly seen = new Set<number>();
  private revision = $state(0);

  /** list returns the decisions, the newest first. */
  get list(): Decision[] {
    void this.revision;
    return [...this.rows.values()].sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : 0));
  }

  /** refused is how many different hosts and ports were refused. */
  get refused(): number {
    void this.revision;
    let n = 0;
    for (const r of this.rows.values()) if (!r.allowed) n++;
    return n;
  }

  /** take adds rows that were asked for; those that came by events are not added again. */
  take(rows: readonly EgressRow[]): void {
    for (const r of rows) this.apply(r.seq, r.at, r.decided);
  }

  apply(seq: number, at: string, d: EgressDecided): void {
    if (this.seen.has(seq)) return;
    this.seen.add(seq);
    const key = `${d.allowed ? "+" : "-"} ${d.host} ${d.port} ${d.reason}`;
    const old = this.rows.get(key);
    const isNewer = !old || at >= old.at;
    this.rows.set(key, {
      key,
      host: d.host,
      port: d.port,
      address: (isNewer && d.address) || old?.address || d.address,
      protocol: isNewer ? d.protocol : old.protocol,
      allowed: d.allowed,
      reason: d.reason,
      count: d.count + (old?.count ?? 0),
      failed: d.failed + (old?.failed ?? 0),
      error: (isNewer && d.error) || old?.error || d.error,
      sent: d.sent + (old?.sent ?? 0),
      received: d.received + (old?.received ?? 0),
      at: isNewer ? at : old.at,
    });
    if (this.rows.size > KEPT) {
      const oldest = this.list.at(-1);
      if (oldest) this.rows.delete(oldest.key);
    }
    this.revision++;
  }
}

/** hostPort writes a host and a port as an address of the web does: an IPv6 one in brackets. */
export function hostPort(host: string, port: number): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** Where a name opens nothing, since whoever answers for it chooses its addresses: the address has to be named. */
const BY_ADDRESS = ["a link-local address", "a cloud's metadata service", "a multicast address", "a reserved address", "an address that wraps another one"];
/** What no entry opens. */
const NEVER = ["Glovebox itself", "the address of no machine", "it is not a host name"];

/** allowFlag returns the flag that lets a refused one through in another session, or "" where none does. */
export function allowFlag(d: Pick<Decision, "host" | "port" | "address" | "allowed" | "reason">): string {
  if (d.allowed || NEVER.includes(d.reason)) return "";
  const host = BY_ADDRESS.includes(d.reason) ? d.address : d.host;
  return host ? `--allow ${shellQuote(hostPort(host, d.port))}` : "";
}
