import { messageOf } from "../api/client";
import type { BrowserOutline } from "../api/types.gen";

/** How long a page is left to change before it is read again, and how long one reading is good for at least. */
export const SETTLE_MS = 500;
export const APART_MS = 2_000;

/** PageOutline is the text of the page that a browser shows, read when it is asked for or after changes. */
export class PageOutline {
  outline = $state.raw<BrowserOutline | null>(null);
  error = $state("");
  loading = $state(false);
  /** at is when the outline was read; "" before that. */
  at = $state("");

  private again = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private lastRead = 0;

  constructor(private readonly ask: () => Promise<BrowserOutline>) {}

  /** read reads the page now. Asked while it reads, it reads once more after that. */
  async read(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.loading) {
      this.again = true;
      return;
    }
    this.loading = true;
    do {
      this.again = false;
      this.lastRead = Date.now();
      try {
        this.outline = await this.ask();
        this.at = new Date().toISOString();
        this.error = "";
      } catch (err) {
        this.error = messageOf(err);
      }
    } while (this.again);
    this.loading = false;
  }

  /** changed says that the page is not what it was: it is read once it has come to rest, and not too often. */
  changed(): void {
    if (this.timer !== undefined) return;
    this.timer = setTimeout(() => void this.read(), Math.max(SETTLE_MS, this.lastRead + APART_MS - Date.now()));
  }

  /** stop forgets what was to be read. */
  stop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.again = false;
  }
}
