import { rmSync } from "node:fs";
import { resolve } from "node:path";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";
import { adoptedStyles } from "./xterm.plugin";

// The server is started by hand: glovebox serve --no-open.
const server = "http://127.0.0.1:7333";

export default defineConfig({
  base: "./",
  plugins: [
    svelte(),
    adoptedStyles(),
    {
      // dist/placeholder.html is committed, so Vite must not empty the folder.
      name: "remove-old-assets",
      apply: "build",
      configResolved: (c) => rmSync(resolve(c.root, c.build.outDir, "assets"), { recursive: true, force: true }),
    },
  ],
  build: {
    target: "es2022",
    emptyOutDir: false,
    modulePreload: { polyfill: false },
    cssCodeSplit: false, // Vite asks once for the style of a part: a part that came at the second try would be without
    assetsInlineLimit: 0, // the content security policy allows no data: URLs
  },
  optimizeDeps: { exclude: ["@xterm/xterm"] }, // so that the plugin sees it
  server: {
    host: "127.0.0.1",
    proxy: { "/api": { target: server, ws: true, changeOrigin: true, headers: { origin: server } } },
  },
  test: { include: ["src/**/*.test.ts"] },
});
