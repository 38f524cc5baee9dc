import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// For `npm run dev` beside a `coterie serve`: the page is made anew as its files change.
const server = process.env.COTERIE_SERVE ?? "http://127.0.0.1:8420";

export default defineConfig({
  plugins: [svelte()],
  build: {
    outDir: "../src/coterie/web/page",
    emptyOutDir: true,
    target: "es2022",
    // Those that know light-dark(), which the stylesheet is built on.
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    // The content security policy permits no data: address but for pictures.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    manifest: "manifest.json",
  },
  server: {
    proxy: { "/api": { target: server, changeOrigin: true, headers: { origin: server } } },
  },
});
