// Tools that run in the browser. One exported function per scenario, as in scenarios.mjs.
import assert from "node:assert/strict";
import { ChatPage } from "./chat-page.mjs";
import { TOKYO, allowLocation, assertQuiet, assertReloadsTheSame, calls, countLocating, open } from "./gate-page.mjs";

export async function location_is_given_when_approved({ page, context, url, mode }) {
  await allowLocation(context);
  const located = await countLocating(page);
  const { chat, posts } = await open({ page, url, mode });
  const card = await chat.askFor("where am I");
  assert.match(await card.innerText(), /asks your browser for your location/);
  assert.equal(await located(), 0);
  await chat.approve();
  await chat.says(/35\.68123.*139\.76712/);
  await assertQuiet(page, posts, 3);
  assert.equal(await located(), 1);
  assert.deepEqual((await calls(chat, "get_location"))[0].output, TOKYO);
  await assertReloadsTheSame(chat);
  assert.equal(await located(), 1);
}

export async function location_refused_by_the_browser({ page, context, url, mode }) {
  await context.clearPermissions();
  const { chat, posts } = await open({ page, url, mode });
  await chat.askFor("where am I");
  await chat.approve();
  await chat.says(/could not find your location.*refused/);
  await assertQuiet(page, posts, 3);
  assert.equal(await chat.state("get_location"), "failed");
  await chat.call("get_location").getByText("The browser did not allow it").waitFor();
  await assertReloadsTheSame(chat);
}

export async function location_denied_on_the_card_is_not_looked_up({ page, context, url, mode }) {
  await allowLocation(context);
  const located = await countLocating(page);
  const { chat, posts } = await open({ page, url, mode });
  await chat.askFor("where am I");
  await chat.deny("none of your business");
  await chat.says(/refused.*none of your business/);
  await assertQuiet(page, posts, 2);
  assert.equal(await chat.state("get_location"), "denied");
  assert.equal(await located(), 0);
}

export async function location_that_comes_too_late_is_dropped({ page, context, url, mode }) {
  await allowLocation(context);
  await page.addInitScript(() => {
    const ask = Geolocation.prototype.getCurrentPosition;
    Geolocation.prototype.getCurrentPosition = function (found, failed, options) {
      ask.call(this, (place) => { window.tell = () => found(place); }, failed, options);
    };
  });
  const { chat, posts } = await open({ page, url, mode });
  await chat.askFor("where am I");
  await chat.approve();
  await page.waitForFunction(() => window.tell);
  assert.equal(await chat.state("get_location"), "waiting for your browser");
  await chat.write("weather in Oslo");
  await chat.says(/Oslo/);
  await page.evaluate(() => window.tell());
  await assertQuiet(page, posts, 3);
  assert.equal(await chat.state("get_location"), "no result");
  assert.equal((await calls(chat, "get_location"))[0].state, "output-error");
}

/** Puts an ear between the page and the loudspeaker. */
async function listen(page) {
  await page.addInitScript(() => {
    window.AudioContext = class extends AudioContext {
      #ear = null;
      get destination() {
        if (this.#ear) return this.#ear;
        this.#ear = this.createAnalyser();
        this.#ear.connect(super.destination);
        window.heard = { context: this, ear: this.#ear };
        return this.#ear;
      }
    };
  });
  const between = (low, high) => page.waitForFunction(([low, high]) => {
    const { context, ear } = window.heard;
    const samples = new Float32Array(ear.fftSize);
    ear.getFloatTimeDomainData(samples);
    const level = Math.max(...samples.map(Math.abs));
    return context.state === "running" && level >= low && level <= high;
  }, [low, high]);
  return { sound: () => between(0.01, 0.9), silence: () => between(0, 0.0001) };
}

export async function music_plays_switches_and_stops({ page, url, mode }) {
  const { sound, silence } = await listen(page);
  const { chat, posts } = await open({ page, url, mode });
  const control = page.getByRole("button", { name: /Stop the music/ });
  for (const [track, count] of [[1, 3], [0, 6]]) {
    const card = await chat.askFor(`play track ${track}`);
    assert.match(await card.innerText(), new RegExp(`asks your browser to play track ${track}`));
    await chat.approve();
    await chat.says(new RegExp(`Track ${track}`));
    await assertQuiet(page, posts, count);
    assert.equal(await control.innerText(), `Track ${track}`);
    assert.deepEqual((await calls(chat, "change_bgm")).at(-1).output, { success: true, track });
    await sound();
  }
  await control.click();
  await control.waitFor({ state: "detached" });
  await silence();
}

/** Approves a browser's call, and keeps the page from running it. */
async function approveAndHold(chat) {
  const asked = new Promise((resolve) => chat.page.route("**/api/chats/*?limit=1", resolve, { times: 1 }));
  await chat.approve();
  await asked;
  assert.deepEqual((await chat.history()).pending.map((call) => call.kind), ["client"]);
}

export async function sound_that_the_browser_blocks_is_told({ page, context, url, mode }) {
  const { chat } = await open({ page, url, mode });
  await chat.askFor("play track 1");
  await approveAndHold(chat);
  // Nobody touches the other tab: even to look for something on it would count as a click.
  const other = await context.newPage();
  await other.goto(`${url}#/c/${chat.chatId}`);
  while ((await chat.history()).pending.length > 0);
  await page.reload();
  await chat.says(/could not change the music.*does not allow sound/);
  assert.equal(await chat.state("change_bgm"), "failed");
  assert.equal(await page.getByRole("button", { name: /Stop the music/ }).count(), 0);
}

export async function time_zone_is_told_without_asking({ page, context, url, mode }) {
  const devtools = await context.newCDPSession(page);
  await devtools.send("Emulation.setTimezoneOverride", { timezoneId: "Asia/Kolkata" });
  const { chat, posts } = await open({ page, url, mode });
  const before = Date.now();
  await chat.write("what time is it");
  await chat.says(/Asia\/(Kolkata|Calcutta)/);
  await assertQuiet(page, posts, 2);
  const [{ output }] = await calls(chat, "get_timezone");
  assert.match(output.local_time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+05:30$/);
  const told = Date.parse(output.local_time);
  assert.ok(told > before - 2000 && told <= Date.now(), output.local_time);
  await assertReloadsTheSame(chat);
}

export async function three_kinds_of_call_in_one_step({ page, url, mode }) {
  const { chat, posts } = await open({ page, url, mode });
  await chat.askFor("pay 5 to Eve, what time is it and weather in Paris");
  await chat.call("get_timezone").getByText("local_time").waitFor({ state: "attached" });
  assert.equal(await chat.state("get_timezone"), "done");
  assert.equal(await chat.state("get_weather"), "done");
  await assertQuiet(page, posts, 1);
  await chat.approve();
  await chat.says(/Eve/);
  await assertQuiet(page, posts, 2);
  for (const tool of ["process_payment", "get_timezone", "get_weather"]) {
    assert.deepEqual((await calls(chat, tool)).map((part) => part.state), ["output-available"], tool);
  }
  assert.equal(await chat.answers.count(), 1);
  await assertReloadsTheSame(chat);
}

/** Answers both cards of `pay 5 to Eve and where am I`; a location that is approved is looked up after that. */
async function answerPaymentAndLocation(chat, payment, location) {
  for (const approved of [payment, location]) {
    const waiting = await chat.cards.count();
    await (approved ? chat.approve() : chat.deny("no"));
    await chat.cards.nth(waiting - 1).waitFor({ state: "detached" });
  }
}

const MIXES = [[true, true], [true, false], [false, true], [false, false]];

async function assertMix(chat, payment, location) {
  await chat.says(payment ? /I paid 5.*Eve/ : /did not make the payment/);
  await chat.says(location ? /35\.68123/ : /did not find your location/);
  const states = [(await calls(chat, "process_payment")).at(-1).state, (await calls(chat, "get_location")).at(-1).state];
  assert.deepEqual(states, [payment, location].map((yes) => (yes ? "output-available" : "output-denied")));
}

export async function every_mix_of_a_payment_and_a_location({ page, context, url, mode }) {
  await allowLocation(context);
  const { chat, posts } = await open({ page, url, mode });
  for (const [payment, location] of MIXES) {
    const before = posts.length;
    await chat.askFor("pay 5 to Eve and where am I", 2);
    await answerPaymentAndLocation(chat, payment, location);
    await assertMix(chat, payment, location);
    await assertQuiet(page, posts, before + (location ? 3 : 2));
  }
  await assertReloadsTheSame(chat);
}

export async function mixes_go_on_after_a_reload({ page, context, url, mode }) {
  await allowLocation(context);
  const located = await countLocating(page);
  const { chat, posts } = await open({ page, url, mode });
  for (const [index, payment] of [true, false].entries()) {
    await chat.askFor("pay 5 to Eve and where am I", 2);
    const held = new Promise((resolve) => page.route("**/api/chats/*?limit=1", resolve, { times: 1 }));
    await answerPaymentAndLocation(chat, payment, true);
    await held;
    await page.reload();
    await assertMix(chat, payment, true);
    assert.equal(await located(), index + 1);
    await assertQuiet(page, posts, 3 * (index + 1));
  }
}

export async function approved_call_is_run_after_a_reload({ page, context, url, mode }) {
  await allowLocation(context);
  const located = await countLocating(page);
  const { chat, posts } = await open({ page, url, mode });
  await chat.askFor("where am I");
  await approveAndHold(chat);
  await page.reload();
  await chat.says(/35\.68123/);
  await assertQuiet(page, posts, 3);
  assert.equal(await located(), 1);
  assert.equal(await chat.answers.count(), 1);
}

export async function call_that_did_not_ask_is_run_after_a_reload({ page, url, mode }) {
  const { chat, posts } = await open({ page, url, mode });
  const asked = new Promise((resolve) => page.route("**/api/chats/*?limit=1", resolve, { times: 1 }));
  await chat.write("what time is it");
  await asked;
  assert.equal(await chat.state("get_timezone"), "waiting for your browser");
  await page.reload();
  await chat.says(/It is/);
  await assertQuiet(page, posts, 2);
}

export async function call_in_a_replayed_answer_is_not_run_again({ page, context, url, mode }) {
  await allowLocation(context);
  const located = await countLocating(page);
  const { chat, posts } = await open({ page, url, mode });
  await chat.askFor("where am I then count to 1000");
  await chat.approve();
  await chat.hears(5);
  const history = page.waitForResponse((response) => response.url().includes("/api/chats/"));
  await page.reload();
  assert.ok((await (await history).json()).active, "the run ended before the reload");
  await chat.hears(20);
  await chat.halt();
  await assertQuiet(page, posts, 3);
  assert.equal(await located(), 1);
  assert.deepEqual((await calls(chat, "get_location")).map((part) => part.output), [TOKYO]);
  assert.equal(await chat.answers.count(), 1);
}

export async function output_already_given_is_taken_along({ page, url, mode }) {
  const { chat, posts } = await open({ page, url, mode });
  await chat.askFor("pay 5 to Eve and what time is it");
  await chat.call("get_timezone").getByText("local_time").waitFor({ state: "attached" });
  await chat.write("weather in Oslo");
  await chat.says(/Oslo/);
  await assertQuiet(page, posts, 2);
  assert.deepEqual(posts[1].messages.map((message) => message.role), ["assistant", "user"]);
  assert.equal((await calls(chat, "get_timezone"))[0].state, "output-available");
  assert.equal((await calls(chat, "process_payment"))[0].state, "output-error");
}

export async function output_that_was_refused_is_sent_by_retry({ page, context, url, mode }) {
  await allowLocation(context);
  const located = await countLocating(page);
  const { chat, posts } = await open({ page, url, mode });
  const outputs = (request) => request.postDataJSON()?.message.parts.some((part) => part.state === "output-available");
  const error = { code: "internal", message: "The store is away." };
  await page.route("**/api/chat", (route) =>
    outputs(route.request()) ? route.fulfill({ status: 500, json: { error } }) : route.continue());
  await chat.askFor("where am I");
  await chat.approve();
  await chat.alert.waitFor();
  await page.unroute("**/api/chat");
  await assertQuiet(page, posts, 3);
  await chat.alert.getByRole("button").click();
  await chat.says(/35\.68123/);
  await assertQuiet(page, posts, 4);
  assert.equal(await located(), 1);
  return /status of 500/;
}

export async function tool_this_page_does_not_have_is_answered_so({ page, url }) {
  const message = {
    id: "m2", role: "assistant", parts: [
      { type: "step-start" },
      { type: "tool-open_door", toolCallId: "c9", state: "input-available", input: {} },
      { type: "tool-get_location", toolCallId: "c10", state: "input-available", input: {} },
    ],
  };
  const located = await countLocating(page);
  const pending = [
    { toolCallId: "c9", tool: "open_door", input: {}, kind: "client" },
    { toolCallId: "c10", tool: "get_location", input: {}, kind: "approval" },
  ];
  await page.route(/\/api\/chats\/served/, (route) => route.fulfill({
    json: { id: "served", title: "served", active: null, pending, messages: [message] },
  }));
  const chat = await new ChatPage({ page, url }).open("#/c/served");
  await chat.call("open_door").getByText("it has no tool named open_door").waitFor();
  assert.equal(await chat.state("open_door"), "failed");
  assert.equal(await located(), 0, "a call that waits for the server was run in the browser");
}
