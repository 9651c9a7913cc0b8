import { svelte } from "@sveltejs/vite-plugin-svelte";
import vue from "@vitejs/plugin-vue";
import { defineConfig } from "vite";

export default defineConfig({
  cacheDir: ".vite",
  plugins: process.env.FRAMEWORK === "vue" ? [vue()] : [svelte()],
  server: { proxy: { "/api": { target: process.env.ADKWIRE_URL } } },
});
