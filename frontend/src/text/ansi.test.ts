import { describe, expect, it } from "vitest";
import { plain } from "./ansi";

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
    ["our own marks are not input", "ab\uf8ff\uf8fe", "ab"],
    ["HTML stays as it is", "<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"],
    ["emoji with carriage return", "🙂🙂\r🙃", "🙃🙂"],
  ];
  it.each(cases)("%s", (_, raw, want) => expect(plain(raw)).toBe(want));

  it("is linear in hostile input", () => {
    const started = performance.now();
    plain("\x1b]".repeat(50_000) + "\x1b[".repeat(50_000) + "\r".repeat(50_000));
    expect(performance.now() - started).toBeLessThan(2_000);
  });
});
