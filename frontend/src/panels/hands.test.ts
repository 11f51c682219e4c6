import { beforeEach, describe, expect, it } from "vitest";
import type { RelayInput } from "../api/types.gen";
import { Hands, modifiersOf, type KeyAct } from "./hands";

const none = { altKey: false, ctrlKey: false, metaKey: false, shiftKey: false };

function pointer(over: Record<string, unknown> = {}): Parameters<Hands["down"]>[0] {
  return { ...none, pointerId: 1, pointerType: "mouse", clientX: 110, clientY: 220, button: 0, buttons: 1, timeStamp: 1_000, ...over };
}

function key(name: string, over: Record<string, unknown> = {}): Parameters<Hands["keyDown"]>[0] {
  const isLetter = /^[a-z]$/i.test(name);
  return {
    ...none, key: name, code: isLetter ? `Key${name.toUpperCase()}` : name, keyCode: isLetter ? name.toUpperCase().charCodeAt(0) : 0,
    location: 0, repeat: false, isComposing: false, timeStamp: 1_000, ...over,
  };
}

describe("Hands", () => {
  let sent: RelayInput[];
  let acts: KeyAct[];
  let soon: (() => void)[];
  let hands: Hands;
  const made = (isMac = false): Hands =>
    new Hands({
      box: () => ({ left: 100, top: 200, width: 400, height: 300 }),
      frame: () => 9,
      send: (i) => sent.push(i),
      act: (a) => acts.push(a),
      soon: (run) => soon.push(run),
      isMac,
    });
  const render = (): void => soon.splice(0).forEach((run) => run());

  beforeEach(() => {
    [sent, acts, soon] = [[], [], []];
    hands = made();
  });

  it("sends a click from the corner of the box, with the picture that it was made on", () => {
    hands.down(pointer());
    hands.up(pointer({ buttons: 0 }));
    expect(sent.map((i) => [i.kind, i.type, i.x, i.y, i.width, i.height, i.button, i.buttons, i.clicks, i.frame])).toEqual([
      ["mouse", "down", 10, 20, 400, 300, "left", 1, 1, 9],
      ["mouse", "up", 10, 20, 400, 300, "left", 0, 1, 9],
    ]);
  });

  it("counts clicks that are near and quick", () => {
    const clicks = [[1_000, 110], [1_300, 113], [1_600, 111], [1_900, 140], [3_000, 140]].map(([timeStamp, clientX]) => {
      hands.down(pointer({ timeStamp, clientX }));
      return sent.at(-1)?.clicks;
    });
    expect(clicks).toEqual([1, 2, 3, 1, 1]);
    hands.down(pointer({ timeStamp: 3_100, clientX: 140, button: 2, buttons: 2 }));
    expect(sent.at(-1)).toMatchObject({ button: "right", buttons: 2, clicks: 1 });
  });

  it("gathers moves until the next rendering, and sends them before what comes then", () => {
    hands.moved(pointer({ clientX: 101, buttons: 0 }));
    hands.moved(pointer({ clientX: 150, buttons: 0 }));
    expect(sent).toEqual([]);
    hands.down(pointer({ clientX: 150 }));
    expect(sent.map((i) => [i.type, i.x])).toEqual([["move", 50], ["down", 50]]);
    hands.moved(pointer({ clientX: 170 }));
    render();
    expect(sent.at(-1)).toMatchObject({ type: "move", x: 70, button: "left", buttons: 1 });
    render();
    expect(sent).toHaveLength(3);
  });

  it("adds up the wheel, in pixels", () => {
    const turn = (deltaY: number, deltaMode = 0) => hands.wheeled({ ...none, clientX: 110, clientY: 220, deltaX: 0, deltaY, deltaMode });
    turn(30);
    turn(2, 1);
    render();
    expect(sent).toHaveLength(1);
    expect(sent[0]).toMatchObject({ kind: "wheel", x: 10, y: 20, dx: 0, dy: 62 });
    turn(5);
    render();
    expect(sent[1]?.dy).toBe(5);
  });

  it("follows fingers", () => {
    const finger = (id: number, clientX: number) => pointer({ pointerType: "touch", pointerId: id, clientX });
    hands.down(finger(1, 110));
    hands.down(finger(2, 120));
    hands.moved(finger(2, 130));
    render();
    hands.up(finger(1, 110));
    hands.up(finger(2, 130));
    expect(sent.map((i) => [i.type, (i.points ?? []).map((p) => [p.id, p.x])])).toEqual([
      ["start", [[1, 10]]],
      ["start", [[1, 10], [2, 20]]],
      ["move", [[1, 10], [2, 30]]],
      ["move", [[2, 30]]],
      ["end", []],
    ]);
  });

  it("types what a key types, and nothing with Ctrl", () => {
    expect(hands.keyDown(key("a"))).toBe(true);
    expect(hands.keyUp(key("a"))).toBe(true);
    hands.keyDown(key("A", { shiftKey: true }));
    hands.keyDown(key("a", { ctrlKey: true }));
    hands.keyDown(key("Enter", { keyCode: 13 }));
    hands.keyDown(key("Tab", { keyCode: 9, shiftKey: true }));
    expect(sent.map((i) => [i.type, i.key, i.text, i.modifiers])).toEqual([
      ["down", "a", "a", 0],
      ["up", "a", "", 0],
      ["down", "A", "A", 8],
      ["down", "a", "", 2],
      ["down", "Enter", "", 0],
      ["down", "Tab", "", 8],
    ]);
    expect(sent[0]).toMatchObject({ code: "KeyA", key_code: 65, location: 0 });
  });

  it("types what AltGr types", () => {
    hands.keyDown(key("@", { ctrlKey: true, altKey: true, code: "KeyQ", keyCode: 81, getModifierState: (k: string) => k === "AltGraph" }));
    expect(sent[0]).toMatchObject({ key: "@", text: "@", modifiers: 0 });
  });

  it("leaves an input method its keys, and sends what it shows and what comes of it", () => {
    expect(hands.keyDown(key("Process", { keyCode: 229 }))).toBe(false);
    expect(hands.keyDown(key("Dead"))).toBe(false);
    expect(hands.keyDown(key("n", { isComposing: true }))).toBe(false);
    hands.compose("に");
    hands.compose("にほ");
    hands.composed("日本");
    hands.compose("x");
    hands.composed("");
    expect(sent.map((i) => [i.kind, i.text, i.from, i.to])).toEqual([
      ["compose", "に", 1, 1],
      ["compose", "にほ", 2, 2],
      ["text", "日本", 0, 0],
      ["compose", "x", 1, 1],
      ["compose", "", 0, 0],
    ]);
  });

  it("gives the page one Esc, and control back with two that are quick", () => {
    hands.keyDown(key("Escape", { timeStamp: 1_000 }));
    hands.keyUp(key("Escape"));
    hands.keyDown(key("Escape", { timeStamp: 1_700 }));
    expect(acts).toEqual([]);
    expect(sent.filter((i) => i.type === "down")).toHaveLength(2);
    hands.keyDown(key("x", { timeStamp: 1_800 }));
    hands.keyDown(key("Escape", { timeStamp: 1_900 }));
    expect(acts).toEqual([]);
    hands.keyDown(key("Escape", { timeStamp: 2_100 }));
    expect(acts).toEqual(["give back"]);
    expect(sent.filter((i) => i.type === "down")).toHaveLength(4);
  });

  it("keeps the keys that stand for something else", () => {
    expect(hands.keyDown(key("v", { ctrlKey: true }))).toBe(false); // the browser pastes
    expect(hands.keyDown(key("F12"))).toBe(false);
    hands.keyDown(key("c", { ctrlKey: true }));
    hands.keyDown(key("x", { ctrlKey: true }));
    hands.keyDown(key("E", { ctrlKey: true, shiftKey: true, code: "KeyE" }));
    hands.keyDown(key("F5"));
    hands.keyDown(key("l", { ctrlKey: true }));
    hands.keyDown(key("ArrowLeft", { altKey: true }));
    hands.keyDown(key("ArrowRight", { altKey: true }));
    expect(acts).toEqual(["copy", "cut", "leave", "reload", "address", "back", "forward"]);
    expect(sent).toEqual([]);
  });

  it("makes Ctrl of ⌘, and lets go of what a Mac tells no end of", () => {
    hands = made(true);
    hands.keyDown(key("Meta", { metaKey: true, code: "MetaLeft", keyCode: 91 }));
    hands.keyDown(key("a", { metaKey: true }));
    hands.keyUp(key("Meta", { code: "MetaLeft", keyCode: 91 }));
    expect(sent.map((i) => [i.type, i.key, i.code, i.modifiers])).toEqual([
      ["down", "Control", "ControlLeft", 2],
      ["down", "a", "KeyA", 2],
      ["up", "Control", "ControlLeft", 0],
      ["up", "a", "KeyA", 0],
    ]);
    expect(hands.keyDown(key("v", { metaKey: true }))).toBe(false);
    hands.keyDown(key("∂", { altKey: true, code: "KeyD" }));
    expect(sent.at(-1)).toMatchObject({ text: "∂", modifiers: 0 });
  });

  it("lets go of all that is held", () => {
    hands.keyDown(key("Shift", { shiftKey: true, code: "ShiftLeft" }));
    hands.down(pointer());
    sent = [];
    hands.letGo();
    expect(sent.map((i) => [i.kind, i.type])).toEqual([["key", "up"], ["mouse", "up"]]);
    expect(sent[1]).toMatchObject({ x: 10, y: 20, buttons: 0 });
    hands.letGo();
    expect(sent).toHaveLength(2);
  });
});

describe("modifiersOf", () => {
  it("writes them as the protocol does", () => {
    expect(modifiersOf({ altKey: true, ctrlKey: true, metaKey: true, shiftKey: true }, false)).toBe(15);
    expect(modifiersOf({ ...none, metaKey: true }, false)).toBe(4);
    expect(modifiersOf({ ...none, metaKey: true }, true)).toBe(2);
  });
});
