import { rmSync } from "node:fs";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

// The server is started by hand: glovebox serve --no-open.
const server = "http://127.0.0.1:7333";

export default defineConfig({
  base: "./",
  plugins: [
    svelte(),
    {
      // dist/placeholder.html is committed, so Vite must not empty the folder.
      name: "remove-old-assets",
      apply: "build",
      buildStart: () => rmSync(new URL("./dist/assets", import.meta.url), { recursive: true, force: true }),
    },
  ],
  build: {
    target: "es2022",
    emptyOutDir: false,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0, // the content security policy allows no data: URLs
  },
  server: {
    host: "127.0.0.1",
    proxy: { "/api": { target: server, ws: true, changeOrigin: true, headers: { origin: server } } },
  },
  test: { include: ["src/**/*.test.ts"] },
});
