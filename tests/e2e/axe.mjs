// Looks for violations of accessibility rules on a page, as it is now.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const SOURCE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Wait for what fades in: half-transparent text has no contrast yet. */
async function animationsEnd(page) {
  await page.waitForFunction(() => document.getAnimations().every((animation) =>
    animation.playState === "finished" || animation.effect.getComputedTiming().endTime === Infinity));
}

export async function assertAccessible(page, where) {
  await animationsEnd(page);
  await page.evaluate(SOURCE);
  const violations = await page.evaluate(async () => (await window.axe.run(document, { preload: false, resultTypes: ["violations"] }))
    .violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join("\n  ")}`));
  assert.deepEqual(violations, [], where);
}
