export type Theme = "system" | "light" | "dark";

const THEME = "glovebox.theme";
const PANEL = "glovebox.panel";

/** Prefs are how a person likes the screen; they say nothing of what is selected. */
export class Prefs {
  theme = $state<Theme>("system");
  panel = $state(true);

  /** On a narrow screen the panel lies over the page: it starts closed there, and is not remembered. */
  constructor(
    private readonly storage: Pick<Storage, "getItem" | "setItem">,
    readonly narrow: boolean,
  ) {
    const theme = storage.getItem(THEME);
    if (theme === "light" || theme === "dark") this.theme = theme;
    this.panel = !narrow && storage.getItem(PANEL) !== "closed";
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    this.storage.setItem(THEME, theme);
    this.show();
  }

  /** show puts the theme on the page; tokens.css does the rest. */
  show(): void {
    if (this.theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.theme;
  }

  setPanel(open: boolean): void {
    this.panel = open;
    if (!this.narrow) this.storage.setItem(PANEL, open ? "open" : "closed");
  }
}
