// Plays scenarios in Chromium: one JSON line `{scenario, url}` in, one `{ok, error?}` out. `node driver.mjs CHROMIUM`.
import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";
import * as approvalScenarios from "./approval-scenarios.mjs";
import * as browserToolScenarios from "./browser-tool-scenarios.mjs";
import * as crashScenarios from "./crash-scenarios.mjs";
import * as policyScenarios from "./policy-scenarios.mjs";
import * as restartScenarios from "./restart-scenarios.mjs";
import * as resumeScenarios from "./resume-scenarios.mjs";
import * as pageScenarios from "./scenarios.mjs";
import * as tabsScenarios from "./tabs-scenarios.mjs";
import * as tokenScenarios from "./token-scenarios.mjs";

const scenarios = {
  ...pageScenarios, ...approvalScenarios, ...browserToolScenarios, ...policyScenarios, ...restartScenarios,
  ...tokenScenarios, ...tabsScenarios, ...resumeScenarios, ...crashScenarios,
};

const ARGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
  // Without a window Chromium lets every page sound; a person's asks for a click or a key first.
  "--autoplay-policy=document-user-activation-required",
];
const PATIENCE_MS = 20_000;
const NOWHERE = "https://nowhere.invalid/";

/** Everything a visit must not do: console errors, exceptions, requests to others, violations of the CSP. */
function watch(context, origin) {
  const complaints = [];
  context.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(origin) && !/^(data|blob):/.test(url)) complaints.push(`external request: ${url}`);
  });
  context.on("console", (message) => {
    if (message.type() === "error") complaints.push(`console: ${message.text()}`);
  });
  context.on("weberror", (error) => complaints.push(`exception: ${error.error()}`));
  return complaints;
}

async function shown(page) {
  return page.locator("body").innerText({ timeout: 1000 }).catch(() => "(nothing)");
}

async function play(browser, scenario, url) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 800 }, locale: "en-US" });
  const complaints = watch(context, new URL(url).origin);
  await context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) =>
      console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`));
  });
  // A request that is under way while the last route is taken away is never answered. This one stays to the end.
  await context.route(NOWHERE, (route) => route.abort());
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  try {
    const expected = await scenario({ page, context, url });
    assert.deepEqual(complaints.filter((text) => !expected?.test(text)), []);
    return { ok: true };
  } catch (error) {
    return { ok: false, error: `${error.stack}\n\ncomplaints: ${complaints.join("\n")}\n\nthe page:\n${await shown(page)}` };
  } finally {
    await context.close();
  }
}

const browser = await chromium.launch({ executablePath: process.argv[2], args: ARGS });
for await (const line of createInterface({ input: process.stdin })) {
  const { scenario, url } = JSON.parse(line);
  console.log(JSON.stringify(await play(browser, scenarios[scenario], url)));
}
await browser.close();
