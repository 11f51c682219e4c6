import type { EngineContainer, Session } from "../api/types.gen";
import type { IconName } from "../ui/icons";

/** NetworkText says what a sandbox can reach, in plain words. */
export interface NetworkText {
  mode: string;
  means: string;
  icon: IconName;
  /** warns marks what is not kept apart. */
  warns: boolean;
  /** isRecorded says that each connection is decided about and shows up. */
  isRecorded: boolean;
  /** title and advice stand where the connections would. */
  title: string;
  advice: string;
}

export function networkText(s: Pick<Session, "wall" | "network" | "adopted">): NetworkText {
  const open = { icon: "globe", warns: true, isRecorded: false, title: "Nothing is recorded here" } as const;
  if (s.wall === "local") return { ...open, mode: "This machine's own network", means: "Commands reach whatever you reach.", advice: "Another wall keeps the network apart." };
  if (s.wall === "remote") {
    return { ...open, mode: "The other side's network", means: "What it reaches is for whoever runs it to say.", advice: "Its connections do not pass through this machine." };
  }
  if (s.adopted) {
    const mode = s.network === "none" ? "The container's own: none" : "The container's own network";
    return { ...open, warns: s.network !== "none", mode, means: "It was set by whoever made the container, and stays as it is.", advice: "Its connections do not pass through Glovebox." };
  }
  switch (s.network) {
    case "none":
      return {
        icon: "shield", warns: false, isRecorded: false, mode: "none", means: "No interface but its own loopback, and no way out: nothing in there can reach anything.",
        title: "There is no way out", advice: "So there is nothing to decide about. A new session can be given the proxy.",
      };
    case "open":
      return {
        ...open, mode: "open", means: "A network of the engine: it reaches whatever this machine reaches, its services and its neighbours too.",
        advice: "Connections go past Glovebox. With the proxy each one would be decided about, and be listed here.",
      };
    default:
      return {
        icon: "shield", warns: false, isRecorded: true, mode: "proxy",
        means: "No interface but its own loopback. Connections go through a proxy on this machine, to public addresses: not to this machine, not to its networks.",
        title: "", advice: "",
      };
  }
}

/** networkOf says how a container of the engine reaches the network. The engine gives those behind the proxy none. */
export function networkOf(c: EngineContainer, sessions: readonly Session[]): { short: string; long: string } {
  const isProxied = c.network === "none" && sessions.some((s) => s.id === c.session_id && s.network === "proxy");
  if (isProxied) return { short: "by the proxy", long: "none but its own loopback; connections go by the proxy of its session" };
  if (c.network === "none") return { short: "no network", long: "none but its own loopback" };
  return c.network === "open" ? { short: "own network", long: "a network of the engine" } : { short: c.network, long: c.network };
}
