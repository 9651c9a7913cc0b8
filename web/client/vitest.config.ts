import { readFileSync } from "node:fs";
import { defineConfig, type ViteUserConfig } from "vitest/config";

const PATIENCE_FILE = new URL("../../tests/patience.json", import.meta.url);
/** Milliseconds to wait for an event that must come: the limit of all tests of this repository. */
const PATIENCE = 1000 * Number(process.env["PATIENCE"] ?? JSON.parse(readFileSync(PATIENCE_FILE, "utf8")).seconds);

const config: ViteUserConfig = defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/helpers/global-setup.ts"],
    // One server and two cores: more workers would only wait for each other.
    maxWorkers: 2,
    // Both majors of `ai` are loaded once in each worker, not in each file.
    isolate: false,
    // A `fetch` that waits as long for its connection.
    setupFiles: ["../../tests/patience.mjs"],
    provide: { patience: PATIENCE },
    // A test waits for several events, one after the other.
    testTimeout: 2 * PATIENCE,
    hookTimeout: 2 * PATIENCE,
    expect: { poll: { timeout: PATIENCE, interval: 10 } },
  },
});
export default config;
