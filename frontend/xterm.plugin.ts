import { fileURLToPath } from "node:url";
import type { Plugin } from "vite";

const sheets = fileURLToPath(new URL("./src/panels/sheet.ts", import.meta.url));

/** What xterm does that the content security policy forbids, and how it is done instead. */
const edits: { of: RegExp; to: string; times: number }[] = [
  { of: /[\w.]+\.createElement\("style"\)/g, to: "sheetElement()", times: 3 },
  { of: /(\w+)\.setAttribute\("style",`\$\{\1\.getAttribute\("style"\)\|\|""\}\$\{(\w+)\};`\)/g, to: '$1.style.cssText+=$2+";"', times: 1 },
];

/**
 * adoptedStyles makes xterm work under `style-src 'self'`. It writes <style>
 * elements and style attributes, which the policy blocks; rules of an adopted
 * style sheet and properties that are set one by one are not blocked. The build
 * fails when xterm has changed, instead of a terminal without colours later.
 */
export function adoptedStyles(): Plugin {
  return {
    name: "xterm-adopted-styles",
    transform(code, id) {
      if (!id.split("?")[0]?.endsWith("/@xterm/xterm/lib/xterm.mjs")) return;
      let text = code;
      for (const { of, to, times } of edits) {
        const found = text.match(of)?.length ?? 0;
        if (found !== times) this.error(`${id}: found ${of} ${found} times, not ${times}: look what xterm does with styles now`);
        text = text.replace(of, to);
      }
      return { code: `import { sheetElement } from ${JSON.stringify(sheets)};\n${text}`, map: null };
    },
  };
}
