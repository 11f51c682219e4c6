export interface Toast {
  id: number;
  title: string;
  detail: string;
  /** tone is "bad" for what went wrong. */
  tone: "bad" | "plain";
  /** act is the one thing that can be done about it. */
  act?: { label: string; run: () => void };
}

const SHOWN_MS = 8_000;

/** Toasts are short messages about what went wrong or can be undone, newest last. */
export class Toasts {
  list = $state.raw<Toast[]>([]);
  private next = 1;

  /** show tells what went wrong. */
  show(title: string, detail: string): void {
    this.add({ id: this.next++, title, detail, tone: "bad" });
  }

  /** offer tells what was done, and what can be done about it. */
  offer(title: string, label: string, run: () => void): void {
    const id = this.next++;
    const undo = (): void => {
      this.dismiss(id);
      run();
    };
    this.add({ id, title, detail: "", tone: "plain", act: { label, run: undo } });
  }

  dismiss(id: number): void {
    this.list = this.list.filter((t) => t.id !== id);
  }

  private add(toast: Toast): void {
    // The same message again replaces the old one, so that a failing poll does not pile up.
    const others = this.list.filter((t) => t.title !== toast.title || t.detail !== toast.detail);
    this.list = [...others, toast].slice(-4);
    setTimeout(() => this.dismiss(toast.id), SHOWN_MS);
  }
}
