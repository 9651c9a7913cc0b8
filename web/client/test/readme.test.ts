import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import * as adkwire from "../src/index.js";

const FOLDER = fileURLToPath(new URL("../", import.meta.url));
const README = readFileSync(join(FOLDER, "README.md"), "utf8");
const PUBLIC = new Set([
  "interrupt", "startAudio", "stopAudio", "sendAudioChunk", "sendVideoFrame", "sendToolResult", "close", "dropped",
]);
const PATHS = { adkwire: [join(FOLDER, "src", "index.ts")] };

test("every name that can be imported is explained, and no other", () => {
  const explained = [...README.matchAll(/^### `(\w+)/gm)].map(([, name]) => name);
  expect(explained.toSorted()).toEqual(Object.keys(adkwire).toSorted());
});

test("every option of the transport is explained", () => {
  const source = readFileSync(join(FOLDER, "src", "sse", "resumable-sse-options.ts"), "utf8");
  const options = [...source.matchAll(/^ {2}(\w+)\?:/gm)].map(([, name]) => name);
  const [, section = ""] = README.split("### `ResumableSseTransport`");
  expect(options.length).toBeGreaterThan(10);
  expect(options.filter((name) => !section.includes(`\`${name}\``))).toEqual([]);
});

test("every option and method of the live transport is explained", () => {
  const options = [...readFileSync(join(FOLDER, "src", "live", "live-chat-transport-options.ts"), "utf8").matchAll(/^ {2}(\w+)\??:/gm)];
  const { prototype } = adkwire.LiveChatTransport;
  const members = Object.getOwnPropertyNames(prototype).filter((name) => PUBLIC.has(name));
  expect(members.toSorted()).toEqual([...PUBLIC].toSorted());
  const [, section = ""] = README.split("### `LiveChatTransport`");
  const names = [...options.map(([, name]) => name), ...members];
  expect(names.length).toBeGreaterThan(25);
  expect(names.filter((name) => !new RegExp(`\\| .*\`${name}[\`(]`).test(section))).toEqual([]);
});

test("the code compiles", () => {
  const folder = mkdtempSync(join(tmpdir(), "adkwire-readme-"));
  try {
    const blocks = [...README.matchAll(/^```(tsx?)\n(.*?)^```/gms)];
    expect(blocks.length).toBeGreaterThan(5);
    for (const [i, [, language = "", code = ""]] of blocks.entries()) writeFileSync(join(folder, `block-${i}.${language}`), code);
    const options = { module: "ESNext", moduleResolution: "Bundler", jsx: "react-jsx", skipLibCheck: true, noEmit: true, strict: true, types: [], paths: PATHS };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: { target: "ES2023", lib: ["ES2023", "DOM", "DOM.Iterable"], ...options } }));
    symlinkSync(join(FOLDER, "..", "..", "node_modules"), join(folder, "node_modules"));
    const tsc = join(createRequire(import.meta.url).resolve("typescript/package.json"), "..", "bin", "tsc");
    execFileSync(process.execPath, [tsc, "-p", folder], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
