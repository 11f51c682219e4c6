import type { Component } from "svelte";

/** Loaded is the component that shows Markdown; a message is plain text until it is there. */
class Loaded {
  component = $state.raw<Component<{ text: string; live?: boolean }> | null>(null);
  private loading: Promise<void> | undefined;

  load(): Promise<void> {
    this.loading ??= import("../ui/Markdown.svelte").then((m) => {
      this.component = m.default;
    });
    return this.loading;
  }
}

export const markdown = new Loaded();
