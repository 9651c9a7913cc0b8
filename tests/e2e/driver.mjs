// Plays scenarios in Chromium: one JSON line `{scenario, url, mode?}` in, one `{ok, error?}` out. `node driver.mjs CHROMIUM`.
import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";
import { PATIENCE } from "../patience.mjs";
import * as approvalScenarios from "./approval-scenarios.mjs";
import * as browserToolScenarios from "./browser-tool-scenarios.mjs";
import * as crashScenarios from "./crash-scenarios.mjs";
import * as formScenarios from "./form-scenarios.mjs";
import * as grantScenarios from "./grant-scenarios.mjs";
import * as listScenarios from "./list-scenarios.mjs";
import * as liveScenarios from "./live-scenarios.mjs";
import * as markdownScenarios from "./markdown-scenarios.mjs";
import * as ownerScenarios from "./owner-scenarios.mjs";
import * as messageScenarios from "./message-scenarios.mjs";
import * as policyScenarios from "./policy-scenarios.mjs";
import * as restartScenarios from "./restart-scenarios.mjs";
import * as resumeScenarios from "./resume-scenarios.mjs";
import * as pageScenarios from "./scenarios.mjs";
import * as settingsScenarios from "./settings-scenarios.mjs";
import * as starterScenarios from "./starter-scenarios.mjs";
import * as tabsScenarios from "./tabs-scenarios.mjs";
import * as tokenScenarios from "./token-scenarios.mjs";

const scenarios = {
  ...pageScenarios, ...approvalScenarios, ...browserToolScenarios, ...policyScenarios, ...restartScenarios,
  ...tokenScenarios, ...tabsScenarios, ...resumeScenarios, ...crashScenarios,
  ...settingsScenarios, ...markdownScenarios, ...starterScenarios, ...liveScenarios, ...messageScenarios, ...listScenarios, ...formScenarios, ...grantScenarios, ...ownerScenarios,
};

const ARGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
  // Without a window Chromium lets every page sound; a person's asks for a click or a key first.
  "--autoplay-policy=document-user-activation-required",
];
const NOWHERE = "https://nowhere.invalid/";

/** Everything a visit must not do: console errors, exceptions, requests to others, violations of the CSP. */
function watch(context, origin) {
  const complaints = [];
  const listeners = {
    request(request) {
      const url = request.url();
      if (!url.startsWith(origin) && !/^(data|blob):/.test(url)) complaints.push(`external request: ${url}`);
    },
    console: (message) => void (message.type() === "error" && complaints.push(`console: ${message.text()}`)),
    weberror: (error) => void complaints.push(`exception: ${error.error()}`),
  };
  for (const [event, listener] of Object.entries(listeners)) context.on(event, listener);
  const unwatch = () => {
    for (const [event, listener] of Object.entries(listeners)) context.off(event, listener);
  };
  return { complaints, unwatch };
}

async function shown(page) {
  return page.locator("body").innerText({ timeout: 1000 }).catch(() => "(nothing)");
}

/**
 * A browser profile for all scenarios, which is emptied after each. A profile and a renderer for each of them would take
 * as long as the scenarios themselves; the first page stays open so that the renderer does.
 */
class Profile {
  static async open(browser, url) {
    const context = await browser.newContext({ viewport: { width: 1100, height: 800 }, locale: "en-US" });
    context.setDefaultTimeout(PATIENCE);
    await context.addInitScript(() => {
      document.addEventListener("securitypolicyviolation", (event) =>
        console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`));
    });
    const anchor = await context.newPage();
    await anchor.route("**/*", (route) => route.fulfill({ contentType: "text/html", body: '<link rel="icon" href="data:,">' }));
    await anchor.goto(url);
    const profile = new Profile();
    return Object.assign(profile, { context, anchor, devtools: await context.newCDPSession(anchor) });
  }

  async play(scenario, url, mode) {
    const { context } = this;
    const { origin } = new URL(url);
    const { complaints, unwatch } = watch(context, origin);
    // A request that is under way while the last route is taken away is never answered. This one stays to the end.
    await context.route(NOWHERE, (route) => route.abort());
    const page = await context.newPage();
    try {
      const expected = await scenario({ page, context, url, mode });
      assert.deepEqual(complaints.filter((text) => !expected?.test(text)), []);
      return { ok: true };
    } catch (error) {
      return { ok: false, error: `${error.stack}\n\ncomplaints: ${complaints.join("\n")}\n\nthe page:\n${await shown(page)}` };
    } finally {
      unwatch();
      await this.empty(origin);
    }
  }

  async empty(origin) {
    const { context, anchor, devtools } = this;
    for (const page of context.pages()) if (page !== anchor) await page.close();
    await context.unrouteAll({ behavior: "ignoreErrors" });
    await context.clearPermissions();
    await context.setGeolocation(null);
    await context.clearCookies();
    await devtools.send("Storage.clearDataForOrigin", { origin, storageTypes: "all" });
  }
}

const browser = await chromium.launch({ executablePath: process.argv[2], args: ARGS, timeout: PATIENCE });
let profile;
for await (const line of createInterface({ input: process.stdin })) {
  const { scenario, url, mode } = JSON.parse(line);
  profile ??= await Profile.open(browser, url);
  console.log(JSON.stringify(await profile.play(scenarios[scenario], url, mode)));
}
await browser.close();
