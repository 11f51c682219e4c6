import { describe, expect, it } from "vitest";
import { plain, runs } from "./ansi";

describe("plain", () => {
  const cases: [name: string, raw: string, want: string][] = [
    ["plain text", "hello\n\tworld  \n", "hello\n\tworld  \n"],
    ["colours", "\x1b[1;31mred\x1b[0m text", "red text"],
    ["8-bit CSI", "\x9b31mred\x9b0m", "red"],
    ["cursor movement", "a\x1b[2Jb\x1b[10;20Hc\x1b[?25l", "abc"],
    ["a link", "\x1b]8;;http://evil.example\x07click\x1b]8;;\x1b\\ me", "click me"],
    ["a clipboard write", "\x1b]52;c;cm0gLXJmIC8=\x07safe", "safe"],
    ["a title", "\x1b]0;pwned\x1b\\safe", "safe"],
    ["8-bit OSC", "\x9d0;pwned\x9csafe", "safe"],
    ["DCS and APC", "\x1bPq#0;2;0;0;0\x1b\\a\x1b_payload\x1b\\b", "ab"],
    ["a string that never ends hides its line only", "a\x1b]0;pwned\nb", "a\nb"],
    ["charset and keypad", "\x1b(Ba\x1b=b\x1b>c", "abc"],
    ["an escape at the end", "abc\x1b", "abc"],
    ["a CSI at the end", "abc\x1b[31", "abc"],
    ["line ends of DOS", "a\r\nb\r\r\nc", "a\nb\nc"],
    ["progress", "10%\r50%\r100%\ndone", "100%\ndone"],
    ["progress that gets shorter", "downloading\rdone", "doneloading"],
    ["progress with erasure", "downloading\r\x1b[Kdone", "done"],
    ["a whole line erased", "downloading\x1b[2K\rdone", "done"],
    ["backspaces", "abc\b\bX", "aXc"],
    ["a backspace too many", "\b\bab", "ab"],
    ["overstrike", "N\bNA\bA", "NA"],
    ["controls", "a\x00b\x07c\x7fd\x85e", "abcde"],
    ["marks that reorder", "user\u202e\u2066// admin\u2069", "user// admin"],
    ["private characters stay: prompts draw with them", "\ue0b0 main", "\ue0b0 main"],
    ["HTML stays as it is", "<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"],
    ["emoji with carriage return", "🙂🙂\r🙃", "🙃🙂"],
    ["half of a wide character is none", "你好\rab\rX", "Xb好"],
    ["a mark stays with its letter", "e\u0301x\rf", "fx"],
    ["a cursor that goes back", "abc\x1b[2DX", "aXc"],
    ["a cursor that goes to a column", "abc\x1b[1GX\x1b[5GY", "Xbc Y"],
    ["a cursor that goes up", "one 10%\ntwo 10%\n\x1b[2A\rone 99%\n\rtwo 99%\n", "one 99%\ntwo 99%\n"],
    ["what is below is erased", "a\nb\nc\x1b[2A\r\x1b[Jd", "d"],
    ["a cursor that goes too far", "a\x1b[999999999C\x1b[999999999A\x1b[999999999Db", "b"],
    ["a cleared screen hides nothing", "secret\x1b[2J\x1b[H\x1b[3Jshown", "secretshown"],
    ["concealed text is shown", "\x1b[8mhidden\x1b[0m", "hidden"],
    ["an image of sixel", "\x1bPq\"1;1;9;9#0!9~-\x1b\\after", "after"],
  ];
  it.each(cases)("%s", (_, raw, want) => expect(plain(raw)).toBe(want));

  it("is linear in hostile input", () => {
    const started = performance.now();
    plain("\x1b]".repeat(50_000) + "\x1b[".repeat(50_000) + "\r".repeat(50_000));
    expect(performance.now() - started).toBeLessThan(2_000);
  });
});

describe("runs", () => {
  const looks = (raw: string): string[] => runs(raw).map((r) => `${r.look}:${r.text}`);

  it("gives colours names", () => {
    expect(looks("a\x1b[1;31mb\x1b[22mc\x1b[39md\x1b[42;97me\x1b[mf")).toEqual([":a", "bold fg-red:b", "fg-red:c", ":d", "bg-green:e", ":f"]);
  });
  it("maps 256 colours and all colours to eight", () => {
    expect(looks("\x1b[38;5;196ma\x1b[38;5;46mb\x1b[38;2;30;40;250mc\x1b[38:2:0:200:210md\x1b[38;5;244me")).toEqual([
      "fg-red:a", "fg-green:b", "fg-blue:c", "fg-cyan:d", "fg-white:e",
    ]);
  });
  it("keeps colours where text is written over", () => {
    expect(looks("\x1b[31m10%\r\x1b[32m99%\x1b[0m done")).toEqual(["fg-green:99%", ": done"]);
  });
  it("shows ten thousand updates as the last one", () => {
    const raw = Array.from({ length: 10_000 }, (_, i) => `\r\x1b[K\x1b[33mstep ${i}\x1b[0m`).join("");
    expect(looks(raw)).toEqual(["fg-yellow:step 9999"]);
  });
  it("bounds how many runs there are, and keeps the text", () => {
    const raw = Array.from({ length: 5_000 }, (_, i) => `\x1b[3${i % 8}mx`).join("");
    const got = runs(raw, 100);
    expect(got.length).toBe(100);
    expect(got.map((r) => r.text).join("")).toBe("x".repeat(5_000));
  });

  it("never passes a control character, whatever comes", () => {
    const parts = ["\x1b", "[", "]", "P", "_", "^", "X", "\x9b", "\x9d", "\x90", "\x9c", "\x07", "\x1b\\", "\r", "\n", "\b", "\t", "m", "K", "J", "A", "C", "D", "G", ";", "31", "2", "8;;javascript:alert(1)", "0;t", "?25l", "a", "你", "🙂", "\u0301", "\u202e", "<b>", " "];
    let seed = 7;
    const next = (n: number): number => (seed = (seed * 48271) % 2147483647) % n;
    for (let round = 0; round < 3_000; round++) {
      const raw = Array.from({ length: 1 + next(40) }, () => parts[next(parts.length)] ?? "").join("");
      const got = runs(raw, 20);
      const text = got.map((r) => r.text).join("");
      expect(text, JSON.stringify(raw)).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]/);
      expect(got.length).toBeLessThanOrEqual(20);
      for (const r of got) expect(r.look).toMatch(/^[a-z -]*$/);
    }
  });
});
