export interface Toast {
  id: number;
  title: string;
  detail: string;
}

const SHOWN_MS = 8_000;

/** Toasts are short messages about what went wrong, newest last. */
export class Toasts {
  list = $state.raw<Toast[]>([]);
  private next = 1;

  show(title: string, detail: string): void {
    const id = this.next++;
    // The same message again replaces the old one, so that a failing poll does not pile up.
    this.list = [...this.list.filter((t) => t.title !== title || t.detail !== detail), { id, title, detail }].slice(-4);
    setTimeout(() => this.dismiss(id), SHOWN_MS);
  }

  dismiss(id: number): void {
    this.list = this.list.filter((t) => t.id !== id);
  }
}
