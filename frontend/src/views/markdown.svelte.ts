import type { Component } from "svelte";
import { arrival } from "../ui/part";

/** Loaded is the component that shows Markdown; a message is plain text until it is there. */
class Loaded {
  component = $state.raw<Component<{ text: string; live?: boolean }> | null>(null);
  private loading: Promise<void> | undefined;

  /** load ends when it is there, or did not come: then text stays plain until it is asked for again. */
  load(): Promise<void> {
    this.loading ??= arrival(() => import("../ui/Markdown.svelte")).then(
      (m) => void (this.component = m.default),
      () => (this.loading = undefined),
    );
    return this.loading;
  }
}

export const markdown = new Loaded();
