import { FitAddon } from "@xterm/addon-fit";
import { SearchAddon } from "@xterm/addon-search";
import { Terminal, type ITheme } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { TerminalSocket, type TerminalLink, type TerminalWire } from "../api/terminal";
import type { ErrorBody, Terminal as Info } from "../api/types.gen";
import { bytes as sizeOf } from "../text/format";

export interface ScreenOptions {
  connect: (after: number) => TerminalWire;
  size: number;
  reader: boolean;
  label: string;
  /** end is how far the output had come when the terminal was listed. */
  end: number;
  changed(t: Info): void;
  link(l: TerminalLink): void;
  failed(e: ErrorBody): void;
  /** follow is asked to open the address of a link that was clicked. */
  follow(url: string): void;
  /** leave takes the keyboard back to the page. */
  leave(): void;
  search(): void;
  /** refused tells that the clipboard was not to be had. */
  refused(what: "copy" | "paste"): void;
}

const SCROLLBACK = 5_000;
const SETTLE_MS = 80;

// Answers that a terminal gives to questions in its output. To old output, shown again, nobody waits for them.
const ANSWER = /^\x1b(?:\[[?>=]?[\d;]*(?:[cnRt]|\$y)|[\]P])/;
// What could end a bracketed paste early, or act as a key.
const UNPASTABLE = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]/g;

const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"] as const;

/** Screen draws one terminal and is its keyboard. Its output is a stranger's: it can draw, and nothing else. */
export class Screen {
  private readonly term: Terminal;
  private readonly fitting = new FitAddon();
  private readonly finding = new SearchAddon();
  private readonly socket: TerminalSocket;
  private readonly watcher: ResizeObserver;
  private settle: ReturnType<typeof setTimeout> | undefined;
  private shownTo = 0;

  constructor(
    private readonly host: HTMLElement,
    private readonly o: ScreenOptions,
  ) {
    this.term = new Terminal({
      allowProposedApi: false,
      cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
      fontFamily: getComputedStyle(host).getPropertyValue("--mono"),
      fontSize: o.size,
      lineHeight: 1.2,
      linkHandler: { activate: (_, text) => this.activate(text), allowNonHttpProtocols: false },
      minimumContrastRatio: 4.5,
      screenReaderMode: o.reader,
      scrollback: SCROLLBACK,
      theme: this.theme(),
    });
    this.term.loadAddon(this.fitting);
    this.term.loadAddon(this.finding);
    // Nothing in the output may write the clipboard, whatever a later version does by itself.
    this.term.parser.registerOscHandler(52, () => true);
    this.term.attachCustomKeyEventHandler((e) => this.key(e));
    this.term.open(host);
    this.term.textarea?.setAttribute("aria-label", o.label);

    this.socket = new TerminalSocket(o.connect, {
      data: (data, written) => {
        const end = this.socket.offset;
        this.term.write(data, () => {
          this.shownTo = end;
          written();
        });
      },
      gap: (n) => this.gap(n),
      terminal: (t, isFirst) => {
        // Another view may have set another size: the last one holds for all.
        if (!isFirst && !t.ended_at && (t.cols !== this.term.cols || t.rows !== this.term.rows)) this.term.resize(t.cols, t.rows);
        this.term.options.disableStdin = t.ended_at !== null;
        o.changed(t);
      },
      link: o.link,
      failed: o.failed,
    });
    this.term.onData((text) => {
      if (this.shownTo < Math.max(this.socket.replayed, o.end) && ANSWER.test(text)) return;
      this.socket.input(text);
    });
    this.term.onBinary((text) => this.socket.inputBytes(Uint8Array.from(text, (c) => c.charCodeAt(0))));

    this.watcher = new ResizeObserver(() => this.fitSoon());
    this.watcher.observe(host);
    host.addEventListener("paste", this.pasted, true);
    host.addEventListener("contextmenu", this.menu);
    host.addEventListener("focusin", this.focused);
    this.fit();
    this.socket.open();
  }

  close(): void {
    clearTimeout(this.settle);
    this.watcher.disconnect();
    this.host.removeEventListener("paste", this.pasted, true);
    this.host.removeEventListener("contextmenu", this.menu);
    this.host.removeEventListener("focusin", this.focused);
    this.socket.close();
    this.term.dispose();
  }

  focus(): void {
    this.term.focus();
  }

  retryNow(): void {
    this.socket.retryNow();
  }

  setSize(px: number): void {
    this.term.options.fontSize = px;
    this.fit();
  }

  setReader(on: boolean): void {
    this.term.options.screenReaderMode = on;
  }

  /** repaint takes the colours of the page's theme. */
  repaint(): void {
    this.term.options.theme = this.theme();
  }

  /** find selects the next place that holds text, or the one before, and reports whether there is one. */
  find(text: string, back = false): boolean {
    return back ? this.finding.findPrevious(text) : this.finding.findNext(text);
  }

  endFind(): void {
    this.finding.clearDecorations();
    this.term.clearSelection();
    this.focus();
  }

  /** fit gives the terminal the size of its place, unless it is hidden. */
  fit(): void {
    const size = this.fitting.proposeDimensions();
    if (!size || !this.host.offsetParent || !(size.cols > 1) || !(size.rows > 0)) return;
    this.term.resize(size.cols, size.rows);
    this.socket.resize(size.cols, size.rows);
  }

  get dimensions(): { cols: number; rows: number } {
    return { cols: this.term.cols, rows: this.term.rows };
  }

  private fitSoon(): void {
    clearTimeout(this.settle);
    this.settle = setTimeout(() => this.fit(), SETTLE_MS);
  }

  private gap(n: number): void {
    // CAN ends a sequence that was cut off, and 0m what it may have left switched on.
    this.term.write("\x18\x1b[0m");
    if (this.term.buffer.active.type === "normal") this.term.write(`\r\n\x1b[2m… ${sizeOf(n)} of output left out …\x1b[0m\r\n`);
  }

  private activate(text: string): void {
    let url: URL;
    try {
      url = new URL(text);
    } catch {
      return;
    }
    if (url.protocol === "http:" || url.protocol === "https:") this.o.follow(url.href);
  }

  /** key reports whether the terminal takes a key; what it does not take is the page's. */
  private key(e: KeyboardEvent): boolean {
    if (!e.ctrlKey || !e.shiftKey || e.altKey || e.metaKey) return true;
    const act = { KeyC: () => void this.copy(), KeyE: this.o.leave, KeyF: this.o.search, KeyV: undefined }[e.code];
    if (e.code === "KeyV") return false; // the browser pastes
    if (!act) return true;
    e.preventDefault();
    if (e.type === "keydown") act();
    return false;
  }

  private async copy(): Promise<void> {
    const text = this.term.getSelection();
    if (!text) return;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      this.o.refused("copy");
    }
  }

  private paste(text: string): void {
    this.term.paste(text.replace(UNPASTABLE, ""));
  }

  private readonly pasted = (e: ClipboardEvent): void => {
    e.preventDefault();
    e.stopPropagation();
    this.paste(e.clipboardData?.getData("text/plain") ?? "");
  };

  /** A right click copies what is selected, or pastes; with Shift it opens the browser's menu. */
  private readonly menu = (e: MouseEvent): void => {
    if (e.shiftKey) return;
    e.preventDefault();
    if (this.term.hasSelection()) {
      void this.copy().then(() => this.term.clearSelection());
      return;
    }
    navigator.clipboard.readText().then(
      (text) => this.paste(text),
      () => this.o.refused("paste"),
    );
  };

  private readonly focused = (): void => this.fit();

  private theme(): ITheme {
    const probe = document.createElement("span");
    this.host.append(probe);
    const colour = (token: string): string => {
      probe.style.color = `var(${token})`;
      return getComputedStyle(probe).color;
    };
    const theme: Record<string, string> = {
      background: colour("--term-bg"),
      foreground: colour("--text"),
      cursor: colour("--accent"),
      cursorAccent: colour("--term-bg"),
      selectionBackground: colour("--selection"),
      scrollbarSliderBackground: colour("--border-strong"),
      scrollbarSliderHoverBackground: colour("--text-3"),
      scrollbarSliderActiveBackground: colour("--text-3"),
    };
    for (const name of COLOURS) {
      theme[name] = colour(`--term-${name}`);
      theme[`bright${name.charAt(0).toUpperCase()}${name.slice(1)}`] = colour(`--term-bright-${name}`);
    }
    probe.remove();
    return theme;
  }
}
