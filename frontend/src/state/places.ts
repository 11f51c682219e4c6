/** Place is where a person left a timeline. */
export interface Place {
  /** at is the item at the top of the screen; "" while the end is followed. */
  at: string;
  /** offset is how far that item's top is from the screen's, in pixels. */
  offset: number;
  /** cards are those that were opened or closed by hand. */
  cards: Record<string, boolean>;
}

const KEY = "glovebox.places";
/** How many sessions, and cards of one session, are remembered. */
const SESSIONS = 40;
const CARDS = 100;

/** Places remembers where timelines were left, also over a restart of the page. */
export class Places {
  constructor(private readonly storage: Pick<Storage, "getItem" | "setItem">) {}

  of(session: string): Place {
    const found = this.all().find(([id]) => id === session)?.[1];
    return { at: found?.at ?? "", offset: found?.offset ?? 0, cards: { ...found?.cards } };
  }

  keep(session: string, place: Place): void {
    const cards = Object.fromEntries(Object.entries(place.cards).slice(-CARDS));
    const others = this.all().filter(([id]) => id !== session);
    try {
      this.storage.setItem(KEY, JSON.stringify([...others, [session, { ...place, cards }]].slice(-SESSIONS)));
    } catch {
      // A full storage only forgets.
    }
  }

  private all(): [string, Partial<Place>][] {
    try {
      const list: unknown = JSON.parse(this.storage.getItem(KEY) ?? "[]");
      return Array.isArray(list) ? list.filter((e): e is [string, Partial<Place>] => Array.isArray(e) && typeof e[0] === "string") : [];
    } catch {
      return [];
    }
  }
}
