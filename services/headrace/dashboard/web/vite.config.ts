import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// The built files are committed, so their names and bytes depend on the sources and on package-lock.json only.
export default defineConfig({
  base: "/page/",
  plugins: [svelte()],
  logLevel: "warn",
  build: {
    outDir: "../static",
    emptyOutDir: true,
    assetsDir: ".",
    modulePreload: false,
    target: "es2022",
    rollupOptions: {
      output: {
        entryFileNames: "page-[hash].js",
        chunkFileNames: "part-[hash].js",
        assetFileNames: "page-[hash][extname]",
      },
    },
  },
});
