import type { RelayInput, RelayPoint } from "../api/types.gen";

/** MAX_TEXT is how much the server takes at once, in bytes. */
export const MAX_TEXT = 512 << 10;
/** Two presses of Esc are meant as one only when they are quick. */
const ESCAPE_MS = 600;
/** Presses this close to each other, in time and place, are a double click. */
const CLICKS_MS = 500;
const CLICKS_PX = 5;
/** A wheel that turns by lines or pages, in pixels. */
const WHEEL_PX = [1, 16, 400] as const;

const BUTTONS = ["left", "middle", "right", "back", "forward"] as const;
const MOUSE_BUTTONS = { left: 1, right: 2, middle: 4, back: 8, forward: 16 } as const;

type Modified = Pick<KeyboardEvent, "altKey" | "ctrlKey" | "metaKey" | "shiftKey">;
type Pointed = Modified & Pick<PointerEvent, "pointerId" | "pointerType" | "clientX" | "clientY" | "button" | "buttons" | "timeStamp">;
type Wheeled = Modified & Pick<WheelEvent, "clientX" | "clientY" | "deltaX" | "deltaY" | "deltaMode">;
type Keyed = Modified & Pick<KeyboardEvent, "key" | "code" | "keyCode" | "location" | "repeat" | "isComposing" | "timeStamp"> & {
  getModifierState?: (key: string) => boolean;
};

/** What a key stands for beside itself. */
export type KeyAct = "copy" | "cut" | "leave" | "give back" | "back" | "forward" | "reload" | "address";

export interface HandsOptions {
  /** box is where the picture is shown, whole and centred. */
  box(): Pick<DOMRect, "left" | "top" | "width" | "height">;
  /** frame is the number of the picture that is on the screen, 0 when there is none. */
  frame(): number;
  send(input: RelayInput): void;
  act(what: KeyAct): void;
  /** soon runs a function before the next rendering. */
  soon(run: () => void): void;
  isMac: boolean;
}

/** modifiersOf writes the keys that are held besides as the browser's protocol does. */
export function modifiersOf(e: Modified, isMac: boolean): number {
  // The browser in the sandbox knows no ⌘: what it does with others is done with Ctrl there.
  const control = e.ctrlKey || (isMac && e.metaKey);
  return (e.altKey ? 1 : 0) | (control ? 2 : 0) | (e.metaKey && !isMac ? 4 : 0) | (e.shiftKey ? 8 : 0);
}

/**
 * Hands turn what a person does on the picture of a page into inputs, in their order. Moves and turns of the wheel
 * are gathered until the next rendering: a fast mouse tells a thousand times a second.
 */
export class Hands {
  private move: RelayInput | null = null;
  private wheel: RelayInput | null = null;
  private isScheduled = false;
  private press: RelayInput | null = null;
  private last = { x: 0, y: 0, at: -Infinity, button: "", clicks: 0 };
  private readonly fingers = new Map<number, RelayPoint>();
  private readonly keys = new Map<string, RelayInput>();
  private escapedAt = -Infinity;
  private composing = false;

  constructor(private readonly o: HandsOptions) {}

  /** down takes a press of a button or of a finger. */
  down(e: Pointed): void {
    if (e.pointerType === "touch") return this.touch("start", e);
    const button = BUTTONS[e.button] ?? "left";
    const isAgain =
      this.last.button === button &&
      e.timeStamp - this.last.at <= CLICKS_MS &&
      Math.hypot(e.clientX - this.last.x, e.clientY - this.last.y) <= CLICKS_PX;
    this.last = { x: e.clientX, y: e.clientY, at: e.timeStamp, button, clicks: isAgain ? this.last.clicks + 1 : 1 };
    this.press = this.mouse("down", e, button);
    this.now(this.press);
  }

  moved(e: Pointed): void {
    if (e.pointerType === "touch") return this.touch("move", e);
    this.move = { ...this.mouse("move", e, this.press?.button ?? ""), clicks: 0 };
    this.schedule();
  }

  up(e: Pointed): void {
    if (e.pointerType === "touch") return this.touch("end", e);
    this.now(this.mouse("up", e, BUTTONS[e.button] ?? "left"));
    if (e.buttons === 0) this.press = null;
  }

  /** cancelled takes that the system took a press away. */
  cancelled(e: Pointed): void {
    if (e.pointerType === "touch") return this.touch("cancel", e);
    this.letGo();
  }

  wheeled(e: Wheeled): void {
    const px = WHEEL_PX[e.deltaMode] ?? 1;
    const at = this.place(e);
    this.wheel = {
      ...this.blank("wheel", ""),
      ...at,
      dx: (this.wheel?.dx ?? 0) + e.deltaX * px,
      dy: (this.wheel?.dy ?? 0) + e.deltaY * px,
      modifiers: modifiersOf(e, this.o.isMac),
    };
    this.schedule();
  }

  /** keyDown reports whether the key was taken: what was not is the input method's, or this browser's own. */
  keyDown(e: Keyed): boolean {
    if (e.isComposing || this.composing || e.keyCode === 229 || ["Dead", "Process", "Unidentified", "Compose"].includes(e.key)) return false;
    if (e.key === "Escape" && !e.repeat) {
      if (this.escaped(e.timeStamp)) {
        this.o.act("give back");
        return true;
      }
    } else if (!["Shift", "Control", "Alt", "Meta"].includes(e.key)) this.escapedAt = -Infinity;
    const mod = (this.o.isMac ? e.metaKey : e.ctrlKey) && !e.altKey;
    const act = this.actOf(e, mod);
    if (act === "native") return false;
    if (act) {
      if (!e.repeat) this.o.act(act);
      return true;
    }
    const input = this.key("down", e);
    this.keys.set(e.code || e.key, input);
    this.now(input);
    return true;
  }

  /** escaped notes an Esc, and reports whether it is the second of two quick ones. */
  escaped(at: number): boolean {
    const isSecond = at - this.escapedAt <= ESCAPE_MS;
    this.escapedAt = isSecond ? -Infinity : at;
    return isSecond;
  }

  keyUp(e: Keyed): boolean {
    const id = e.code || e.key;
    const held = this.keys.get(id);
    // While ⌘ is held macOS tells of no other key's end.
    if (this.o.isMac && e.key === "Meta") this.releaseKeys();
    if (!held) return false;
    if (this.keys.delete(id)) this.now({ ...this.key("up", e), key: held.key, code: held.code });
    return true;
  }

  /** stroke sends a key with the modifiers that are named, down and up. */
  stroke(key: string, code: string, keyCode: number, modifiers = 0): void {
    const input = { ...this.blank("key", "down"), key, code, key_code: keyCode, modifiers };
    this.now(input);
    this.now({ ...input, type: "up" });
  }

  /** typed sends text that no key stands for: of a soft keyboard, a dead key, a list of emoji, the clipboard. */
  typed(text: string): void {
    if (text) this.now({ ...this.blank("text", ""), text });
  }

  /** compose tells what the input method shows so far, and composed what came of it. */
  compose(text: string): void {
    this.composing = true;
    this.now({ ...this.blank("compose", ""), text, from: text.length, to: text.length });
  }

  composed(text: string): void {
    this.composing = false;
    if (text) this.typed(text);
    else this.now(this.blank("compose", ""));
  }

  /** letGo releases all that is held: the keyboard or the control went elsewhere. */
  letGo(): void {
    if (this.composing) this.composed("");
    this.releaseKeys();
    const press = this.press;
    this.press = null;
    if (press) this.now({ ...press, type: "up", buttons: 0 });
    if (this.fingers.size > 0) {
      this.fingers.clear();
      this.now(this.blank("touch", "cancel"));
    }
    this.last.at = -Infinity;
  }

  private releaseKeys(): void {
    for (const input of [...this.keys.values()]) this.now({ ...input, type: "up", text: "", repeat: false, modifiers: 0 });
    this.keys.clear();
  }

  private actOf(e: Keyed, mod: boolean): KeyAct | "native" | "" {
    if (e.ctrlKey && e.shiftKey && !e.altKey && !e.metaKey && e.code === "KeyE") return "leave";
    if (e.key === "F11" || e.key === "F12") return "native";
    if (mod && !e.shiftKey) {
      switch (e.key.toLowerCase()) {
        case "v":
          return "native"; // this browser pastes, which is the consent
        case "c":
          return "copy";
        case "x":
          return "cut";
        case "r":
          return "reload";
        case "l":
          return "address";
      }
    }
    if (mod && e.shiftKey && e.key.toLowerCase() === "v") return "native";
    if (e.shiftKey && !mod && e.key === "Insert") return "native";
    if (mod && e.key === "Insert") return "copy";
    if (e.key === "F5") return "reload";
    if (e.altKey && !e.ctrlKey && !e.metaKey && !this.o.isMac) {
      if (e.key === "ArrowLeft") return "back";
      if (e.key === "ArrowRight") return "forward";
    }
    return "";
  }

  private key(type: "down" | "up", e: Keyed): RelayInput {
    const isText = [...e.key].length === 1;
    let modifiers = modifiersOf(e, this.o.isMac);
    // AltGr, and Option on a Mac, type characters: they are not held for the page.
    if (isText && (e.getModifierState?.("AltGraph") || (this.o.isMac && e.altKey && !e.metaKey && !e.ctrlKey))) modifiers &= ~3;
    const isCommand = this.o.isMac && e.key === "Meta";
    return {
      ...this.blank("key", type),
      key: isCommand ? "Control" : e.key,
      code: isCommand ? e.code.replace("Meta", "Control") : e.code,
      key_code: isCommand ? 17 : e.keyCode,
      location: e.location,
      repeat: type === "down" && e.repeat,
      modifiers,
      text: type === "down" && isText && (modifiers & ~8) === 0 ? e.key : "",
    };
  }

  private mouse(type: string, e: Pointed, button: string): RelayInput {
    const held = type === "down" ? e.buttons | (MOUSE_BUTTONS[button as keyof typeof MOUSE_BUTTONS] ?? 0) : e.buttons;
    return {
      ...this.blank("mouse", type),
      ...this.place(e),
      button,
      buttons: held,
      clicks: type === "move" ? 0 : this.last.clicks,
      modifiers: modifiersOf(e, this.o.isMac),
    };
  }

  private touch(type: "start" | "move" | "end" | "cancel", e: Pointed): void {
    const at = this.place(e);
    if (type === "start" || (type === "move" && this.fingers.has(e.pointerId))) {
      this.fingers.set(e.pointerId, { id: e.pointerId, x: at.x, y: at.y });
    } else if (!this.fingers.delete(e.pointerId)) return;
    // A finger that goes while others stay is one that is named no more.
    const kind = type === "cancel" ? "cancel" : type === "end" && this.fingers.size > 0 ? "move" : type;
    if (kind === "cancel") this.fingers.clear();
    const input = { ...this.blank("touch", kind), width: at.width, height: at.height, points: [...this.fingers.values()], modifiers: modifiersOf(e, this.o.isMac) };
    if (type !== "move") return this.now(input);
    this.move = input;
    this.schedule();
  }

  private place(e: Pick<PointerEvent, "clientX" | "clientY">): Pick<RelayInput, "width" | "height" | "x" | "y"> {
    const box = this.o.box();
    return { width: box.width, height: box.height, x: e.clientX - box.left, y: e.clientY - box.top };
  }

  private blank(kind: string, type: string): RelayInput {
    return {
      kind, type, frame: 0, width: 0, height: 0, x: 0, y: 0, dx: 0, dy: 0, button: "", buttons: 0, clicks: 0, modifiers: 0,
      points: null, key: "", code: "", key_code: 0, location: 0, repeat: false, text: "", from: 0, to: 0,
    };
  }

  private schedule(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    this.o.soon(() => {
      this.isScheduled = false;
      this.flush();
    });
  }

  private flush(): void {
    const [move, wheel] = [this.move, this.wheel];
    this.move = this.wheel = null;
    if (move) this.o.send({ ...move, frame: this.o.frame() });
    if (wheel) this.o.send({ ...wheel, frame: this.o.frame() });
  }

  /** now sends an input, after those that were gathered. */
  private now(input: RelayInput): void {
    this.flush();
    this.o.send({ ...input, frame: this.o.frame() });
  }
}
