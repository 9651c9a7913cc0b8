import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const target = process.env.ADKWIRE_URL ?? "http://127.0.0.1:8000";

export default defineConfig({
  plugins: [react()],
  // `ws: true` forwards WebSockets too. No `changeOrigin`: the Host stays that of the page, so adkwire sees one origin.
  server: { proxy: { "/api": { target, ws: true } } },
});
