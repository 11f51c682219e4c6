import { type Client, messageOf } from "../api/client";
import type { EngineContainer, EngineContainers } from "../api/types.gen";

/** Containers are all those of the engine, as they were seen last. */
export class Containers {
  seen = $state.raw<EngineContainers | null>(null);
  /** error says why the server was not asked; why the engine did not answer is in seen. */
  error = $state("");
  loading = $state(false);
  /** reached is the id of the row that has, or last had, the focus. */
  reached = $state("");
  /** busy says what is being done, by a container's id. */
  busy = $state.raw<Readonly<Record<string, string>>>({});

  constructor(private readonly client: () => Client) {}

  get list(): readonly EngineContainer[] {
    return this.seen?.containers ?? [];
  }

  /** hand is the container of the row at hand. */
  get hand(): EngineContainer | null {
    return this.list.find((c) => c.id === this.reached) ?? null;
  }

  /** isAway says that the engine did not answer when it was asked last. */
  get isAway(): boolean {
    return (this.seen?.error ?? "") !== "";
  }

  /** take hears what the engine has; an answer may come after a frame that is younger. */
  take(next: EngineContainers): void {
    if (this.seen && next.observed_at < this.seen.observed_at) return;
    this.seen = next;
    this.error = "";
  }

  /** load asks the engine now. */
  async load(): Promise<void> {
    if (this.loading) return;
    this.loading = true;
    try {
      this.take(await this.client().containers());
    } catch (err) {
      this.error = messageOf(err);
    } finally {
      this.loading = false;
    }
  }

  /** during marks a container while something is done with it. */
  async during<T>(id: string, what: string, act: () => Promise<T>): Promise<T> {
    this.busy = { ...this.busy, [id]: what };
    try {
      return await act();
    } finally {
      const { [id]: _, ...rest } = this.busy;
      this.busy = rest;
    }
  }
}
