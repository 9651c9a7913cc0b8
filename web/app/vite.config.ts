import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  plugins: [react()],
  // From its source: a fresh clone has no build of it yet.
  resolve: { alias: { adkwire: fileURLToPath(new URL("../client/src/index.ts", import.meta.url)) } },
  build: {
    outDir: "../../src/adkwire/static",
    emptyOutDir: true,
    chunkSizeWarningLimit: 1000,
  },
  server: { proxy: { "/api": { target: "http://127.0.0.1:8000", ws: true } } },
});
