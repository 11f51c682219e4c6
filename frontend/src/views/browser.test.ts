import { describe, expect, it } from "vitest";
import type { BrowserDisplay } from "../api/types.gen";
import { actionText, isBrowser, pageText, refusalOf, shownInput } from "./browser";

const display = (over: Partial<BrowserDisplay> = {}): BrowserDisplay => ({
  action: "", target: "", url: "", title: "", tab: 1, notices: null, elements: 0, snapshot: "", secret: false, refused: "",
  picture: null, box: null, tabs: null, downloads: null, console: null, ...over,
});

describe("actionText", () => {
  it.each([
    ["browser_navigate", { url: "https://www.example.com/" }, null, "Go to example.com"],
    ["browser_click", { index: 3 }, null, "Click element 3"],
    ["browser_click", { index: 3 }, display({ target: '<button#b.big> "Save"' }), "Click 3 button “Save”"],
    ["browser_click", { selector: "#x" }, display({ target: "<input#x>" }), "Click field #x"],
    ["browser_click", { selector: "#go" }, null, "Click “#go”"],
    ["browser_type", { index: 4, text: "Kim", submit: true }, display({ target: "textbox “Name”" }), "Type “Kim” into 4 textbox “Name” and submit"],
    ["browser_scroll", { direction: "down" }, null, "Scroll down"],
    ["browser_scroll", { index: 7 }, null, "Scroll at element 7"],
    ["browser_press", { keys: "Control+A" }, null, "Press Control+A"],
    ["browser_select", { index: 2, values: ["Red", "Blue"] }, null, "Choose “Red, Blue” in element 2"],
    ["browser_screenshot", {}, null, "Take a picture"],
    ["browser_dialog", { accept: false }, null, "Dismiss the dialog"],
    ["browser_upload", { index: 1, files: ["a.txt"] }, null, "Give a.txt to element 1"],
    ["browser_of_tomorrow", {}, null, "of tomorrow"],
  ])("%s %j", (tool, input, d, want) => expect(actionText(tool, input, d)).toBe(want));

  it("does not show what is typed before it is known into what, nor into a password field", () => {
    const input = { index: 4, text: "hunter2" };
    expect(actionText("browser_type", input, null)).toBe("Type a text into element 4");
    expect(actionText("browser_type", input, display({ target: "textbox “Password”", secret: true }))).toBe("Type a secret into 4 textbox “Password”");
    expect(JSON.stringify(shownInput("browser_type", input, null))).not.toContain("hunter2");
    expect(shownInput("browser_type", input, display())).toBe(input);
  });

  it("keeps what a page says to one line of what can be read", () => {
    expect(actionText("browser_click", {}, display({ target: "link “a\u202eb”\nsecond" }))).toBe("Click link “a⟨U+202E⟩b”");
  });
});

describe("pageText", () => {
  it("is the title and the address, each once", () => {
    expect(pageText(display({ title: "Shop", url: "https://shop.test/cart" }))).toBe("Shop · shop.test/cart");
    expect(pageText(display({ title: "shop.test", url: "https://shop.test/" }))).toBe("shop.test");
    expect(pageText(null)).toBe("");
  });
});

describe("refusalOf", () => {
  it("is told of calls that failed alone", () => {
    expect(refusalOf({ state: "error", text: "" }, display({ refused: "held" }))).toBe("held");
    expect(refusalOf({ state: "ok", text: "" }, display({ refused: "held" }))).toBe("");
    expect(refusalOf({ state: "error", text: "" }, null)).toBe("");
  });
});

describe("isBrowser", () => {
  it("is every tool of the browser but the question to a person", () => {
    expect(["browser_click", "browser_ask_person", "Bash"].map(isBrowser)).toEqual([true, false, false]);
  });
});
