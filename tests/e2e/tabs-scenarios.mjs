// Several tabs on one chat, and the ways to talk. One exported function per scenario, as in scenarios.mjs.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { ChatPage, numbers, upTo } from "./chat-page.mjs";
import { allowLocation, calls, countLocating, open } from "./gate-page.mjs";

async function openTab({ context, url }, hash = "") {
  return new ChatPage({ page: await context.newPage(), url }).open(hash);
}

async function counted(chat, last) {
  await chat.hears(last);
  await chat.idle();
  const said = numbers(await chat.answers.last().locator(":scope > .text").last().innerText());
  assert.deepEqual(said.slice(-last), upTo(last));
}

export async function tabs_follow_each_other({ page, context, url }) {
  const one = await new ChatPage({ page, url }).open();
  const two = await openTab({ context, url });
  await one.write("count to 60");
  await one.hears(5);
  // The chat appears in the list of a tab that looks elsewhere.
  await two.list.locator(`a[href="#/c/${one.chatId}"]`).click();
  await two.hears(5);
  for (const tab of [one, two]) await counted(tab, 60);
  assert.deepEqual(await two.transcript(), await one.transcript());
  await two.write("weather in Rome");
  for (const tab of [one, two]) await tab.says(/Rome/);
  await one.write("count to 30");
  for (const tab of [two, one]) await counted(tab, 30);
  assert.equal(await two.answers.count(), 3);
  assert.deepEqual(await two.transcript(), await one.transcript());
}

export async function answer_in_one_tab_settles_the_card_in_the_other({ page, context, url }) {
  const { chat: one, posts } = await open({ page, url });
  await one.ask("weather in Bern");
  const two = await openTab({ context, url }, `#/c/${one.chatId}`);
  await one.askFor("pay 10 to Ann and 20 to Bob", 2);
  await two.cards.nth(1).waitFor();
  await two.approve();
  await two.cards.nth(1).waitFor({ state: "detached" });
  assert.equal(await one.cards.count(), 2, "half of the answers has left");
  await two.deny("not Bob");
  for (const tab of [one, two]) await tab.says(/10.*Ann/);
  assert.equal(await one.cards.count(), 0);
  assert.equal(await one.state("process_payment", 1), "denied");
  assert.deepEqual(await one.transcript(), await two.transcript());
  assert.equal(posts.length, 2, "the tab that did not answer sent something");
}

export async function browser_call_is_run_by_the_tab_that_asked({ page, context, url }) {
  await allowLocation(context);
  const one = await new ChatPage({ page, url }).open();
  await one.ask("weather in Bern");
  const other = await context.newPage();
  const located = [await countLocating(page), await countLocating(other)];
  await page.reload();
  const two = await new ChatPage({ page: other, url }).open(`#/c/${one.chatId}`);
  await one.askFor("where am I");
  await two.cards.waitFor();
  await one.approve();
  for (const tab of [one, two]) await tab.says(/35\.68123/);
  assert.deepEqual([await located[0](), await located[1]()], [1, 0]);
  assert.deepEqual(await two.transcript(), await one.transcript());
}

/** What a tab shows, as one short word. */
async function fingerprint(chat) {
  return createHash("sha256").update(JSON.stringify(await chat.transcript())).digest("hex");
}

/** A browser of its own each: one browser has few connections to a server. */
async function joinAt(number, first, url) {
  await first.hears(number);
  const context = await first.page.context().browser().newContext();
  const chat = new ChatPage({ page: await context.newPage(), url });
  await chat.page.goto(`${url}#/c/${first.chatId}`);
  return chat;
}

export async function five_tabs_end_with_the_same_transcript({ page, url }) {
  const first = await new ChatPage({ page, url }).open();
  await first.write("weather in Lima then count to 120");
  const points = Array.from({ length: 4 }, () => 1 + Math.floor(Math.random() * 90)).sort((a, b) => a - b);
  const tabs = [first];
  try {
    for (const point of points) tabs.push(await joinAt(point, first, url));
    for (const tab of tabs) await counted(tab, 120);
    const prints = await Promise.all(tabs.map(fingerprint));
    assert.deepEqual(prints, Array(5).fill(prints[0]), `joined at ${points}`);
  } finally {
    for (const tab of tabs.slice(1)) await tab.page.context().close();
  }
}

/** A tab that talks the way that the last one chose. */
async function openTabs(count, first, { context, url }) {
  const tabs = [first];
  while (tabs.length < count) tabs.push(await openTab({ context, url }, `#/c/${first.chatId}`));
  return tabs;
}

async function assertSameTranscript(tabs) {
  for (const tab of tabs) await tab.idle();
  const shown = await tabs[0].transcript();
  for (const tab of tabs) assert.deepEqual(await tab.transcript(), shown);
}

/** What six tabs in front do with one run: all read it, the last one stops it, each can go on. */
async function followStopAndSend(tabs) {
  const [first, last] = [tabs[0], tabs.at(-1)];
  await first.write("count to 1000");
  for (const tab of tabs) await tab.hears(5);
  await last.stop.click();
  for (const tab of tabs) await tab.send.waitFor();
  const { active, messages } = await last.history();
  assert.equal(active, null);
  const stored = numbers(messages.at(-1).parts.findLast((part) => part.type === "text").text);
  assert.ok(stored.length < 1000, "it was not stopped");
  assert.deepEqual(numbers(await last.answers.last().locator(":scope > .text").last().innerText()), stored);
  await assertSameTranscript(tabs);
  for (const [index, tab] of tabs.entries()) {
    const before = await tab.answers.count();
    await tab.write(`count to ${index + 3}`);
    for (const each of tabs) {
      await each.answers.nth(before).waitFor();
      await counted(each, index + 3);
    }
  }
  await assertSameTranscript(tabs);
}

export async function six_tabs_in_front_share_the_connections({ page, context, url }) {
  const first = await new ChatPage({ page, url }).open();
  await first.ask("weather in Bern");
  await followStopAndSend(await openTabs(6, first, { context, url }));
}

export async function six_tabs_with_sockets_for_five_say_why_one_has_none({ page, context, url }) {
  const first = await new ChatPage({ page, url }).open();
  await radio(page, "WebSocket").check();
  await first.ask("weather in Bern");
  const tabs = await openTabs(6, first, { context, url });
  await first.write("count to 1000");
  const told = tabs.map((tab) => tab.page.getByText("By SSE: too many WebSockets").waitFor());
  await Promise.any(told);
  for (const waiting of told) waiting.catch(() => undefined);
  for (const tab of tabs) await tab.hears(5);
  await tabs.at(-1).stop.click();
  for (const tab of tabs) await tab.send.waitFor();
  await assertSameTranscript(tabs);
  for (const tab of tabs) await tab.ask("count to 3");
}

export async function news_go_on_when_the_tab_that_reads_them_goes({ page, context, url }) {
  const readers = [];
  context.on("request", (request) => request.url().endsWith("/api/events") && readers.push(request.frame().page()));
  const first = await new ChatPage({ page, url }).open();
  await first.ask("weather in Bern");
  const [, second, third] = await openTabs(3, first, { context, url });
  await third.says(/Bern/);
  assert.deepEqual(readers, [page], "one tab reads the news");
  const taken = context.waitForEvent("request", (request) => request.url().endsWith("/api/events"));
  await page.close();
  await taken;
  for (const [asks, hears, city] of [[second, third, "Rome"], [third, second, "Oslo"]]) {
    await asks.write(`weather in ${city}`);
    await hears.says(new RegExp(city));
  }
  await assertSameTranscript([second, third]);
  assert.equal(readers.length, 2, "one of the others reads them now");
}

function radio(page, name) {
  return page.getByRole("radio", { name });
}

export async function mode_is_switched_while_a_question_waits({ page, url }) {
  const { chat, posts } = await open({ page, url });
  await chat.askFor("pay 50 to Hanako");
  await radio(page, "SSE").focus();
  for (let step = 0; step < 3; step++) await page.keyboard.press("ArrowRight");
  assert.equal(await radio(page, "Gemini direct").isChecked(), true);
  await chat.cards.getByText("Gemini direct has no tools").waitFor();
  assert.equal(await chat.cards.getByRole("button", { name: "Approve" }).isDisabled(), true);
  await radio(page, "WebSocket").check();
  await chat.approve();
  await chat.says(/50.*Hanako/);
  assert.equal(posts.length, 1, "the answer did not leave by the socket");
  assert.deepEqual((await calls(chat, "process_payment")).map((part) => part.state), ["output-available"]);
  const shown = await chat.transcript();
  await page.reload();
  await chat.says(/50.*Hanako/);
  assert.deepEqual(await chat.transcript(), shown);
  assert.equal(await radio(page, "WebSocket").isChecked(), true, "the choice was not kept");
}

export async function gemini_direct_shares_the_history({ page, url }) {
  const { chat } = await open({ page, url });
  const direct = [];
  page.on("request", (request) => request.url().endsWith("/api/gemini") && direct.push(request.url()));
  await chat.ask("weather in Oslo");
  await radio(page, "Gemini direct").check();
  await page.getByText("The offline model answers").waitFor();
  const answer = await chat.ask("weather in Oslo");
  assert.equal(direct.length, 1);
  assert.equal(await answer.locator(".tool-card").count(), 0);
  assert.ok((await answer.innerText()).length > 10);
  await radio(page, "WebSocket").check();
  await chat.ask("count to 5");
  const roles = (await chat.history()).messages.map((message) => message.role);
  assert.deepEqual(roles, Array(3).fill(["user", "assistant"]).flat());
  const shown = await chat.transcript();
  await page.reload();
  await chat.answers.nth(2).waitFor();
  assert.deepEqual(await chat.transcript(), shown);
}

export async function stop_works_in_every_mode_and_after_a_reload({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  for (const [name, reloaded] of [["SSE", true], ["WebSocket", false], ["WebSocket", true], ["Gemini direct", false]]) {
    await radio(page, name).check();
    const before = await chat.answers.count();
    await chat.write("count to 1000");
    await chat.answers.nth(before).waitFor();
    await chat.hears(5);
    if (reloaded) {
      await page.reload();
      await chat.hears(5);
    }
    await chat.stop.click();
    await chat.send.waitFor();
    await chat.idle();
    await chat.answers.last().getByText("Stopped", { exact: true }).waitFor();
    const { active, messages } = await chat.history();
    assert.equal(active, null);
    const stored = messages.at(-1).parts.findLast((part) => part.type === "text").text;
    const shown = await chat.answers.last().locator(":scope > .text").last().innerText();
    assert.deepEqual(numbers(shown), numbers(stored), name);
    assert.ok(numbers(shown).length < 1000);
  }
}
