// The live mode, typed. One exported function per scenario, as in scenarios.mjs.
import assert from "node:assert/strict";
import { assertAccessible } from "./axe.mjs";
import { ChatPage, upTo } from "./chat-page.mjs";
import { allowLocation, calls, countLocating, open } from "./gate-page.mjs";

export async function live_turn_is_typed_and_its_states_are_shown({ page, url }) {
  const { chat } = await open({ page, url, mode: "Live" });
  await chat.liveState.getByText("Listening").waitFor();
  await chat.write("count to 60");
  await chat.liveState.getByText("Speaking").waitFor();
  await chat.hears(60);
  await chat.idle();
  await chat.liveState.getByText("Listening").waitFor();
  await chat.askFor("pay 50 to Hanako");
  await chat.liveState.getByText("Waiting for you").waitFor();
  await chat.approve();
  await chat.says(/50.*Hanako/);
  assert.deepEqual((await calls(chat, "process_payment")).map((part) => part.state), ["output-available"]);
  const shown = await chat.transcript();
  await page.reload();
  await chat.says(/50.*Hanako/);
  assert.deepEqual(await chat.transcript(), shown);
  assert.equal(await page.getByRole("radio", { name: "Live" }).isChecked(), true, "the choice was not kept");
}

export async function card_is_answered_while_the_agent_speaks({ page, url }) {
  const { chat } = await open({ page, url, mode: "Live" });
  await chat.write("count to 60 and pay 5 to Eve");
  await chat.cards.waitFor();
  await chat.approve();
  await chat.says(/I paid 5.*Eve/);
  assert.equal(await chat.answers.count(), 1);
}

export async function escape_interrupts_live_and_leaves_the_card({ page, url }) {
  const { chat } = await open({ page, url, mode: "Live" });
  const stops = [];
  page.on("request", (request) => request.url().endsWith("/stop") && stops.push(request.url()));
  await page.keyboard.press("Escape");
  assert.equal(await chat.interrupted.innerText(), "");
  await chat.write("count to 1000");
  await chat.hears(5);
  await page.keyboard.press("Escape");
  await chat.interrupted.getByText("Interrupted").waitFor();
  await chat.idle();
  const counted = (await chat.counted()).length;
  assert.ok(counted >= 5 && counted < 1000, `${counted} numbers`);
  await chat.interrupted.getByText("Interrupted").waitFor({ state: "detached" });
  await chat.askFor("pay 5 to Eve");
  await page.keyboard.press("Escape");
  assert.equal(await chat.interrupted.innerText(), "", "nothing ran");
  await chat.approve();
  await chat.says(/I paid 5.*Eve/);
  assert.deepEqual(stops, []);
}

/** Goes through all modes with a question that waits, and answers it in the last one. */
async function answerIn(chat, asks, answers) {
  await chat.switchTo(asks);
  await chat.askFor("pay 5 to Eve");
  await chat.switchTo(answers);
  await chat.cards.waitFor();
  await chat.approve();
  await chat.says(/I paid 5.*Eve/);
}

export async function question_is_answered_in_another_mode({ page, url }) {
  const { chat } = await open({ page, url });
  const ways = [["SSE", "Live"], ["Live", "SSE"], ["WebSocket", "Live"], ["Live", "WebSocket"]];
  for (const [asks, answers] of ways) await answerIn(chat, asks, answers);
  const paid = await calls(chat, "process_payment");
  assert.deepEqual(paid.map((part) => part.state), ways.map(() => "output-available"));
  assert.equal(await chat.answers.count(), ways.length);
}

/** A second window on the chat, which talks in a text mode. */
async function openBeside({ context, url }, chat, mode) {
  const other = new ChatPage({ page: await context.newPage(), url, mode });
  await other.open(`#/c/${chat.chatId}`);
  const stops = [];
  other.page.on("request", (request) => request.url().endsWith("/stop") && stops.push(request.url()));
  return { other, stops };
}

const CONFLICT = /status of 409/;

export async function answer_beside_a_live_window_settles_its_card({ page, context, url }) {
  const { chat } = await open({ page, url, mode: "Live" });
  await chat.ask("weather in Bern");
  const { other } = await openBeside({ context, url }, chat, "SSE");
  await chat.askFor("pay 5 to Eve");
  await other.cards.waitFor();
  await other.approve();
  for (const window of [chat, other]) await window.says(/I paid 5.*Eve/);
  assert.deepEqual(await other.transcript(), await chat.transcript());
  assert.equal(await other.alert.count(), 0);
  assert.deepEqual((await calls(chat, "process_payment")).map((part) => part.state), ["output-available"]);
  return CONFLICT;
}

export async function typing_beside_a_live_window_asks_first({ page, context, url }) {
  const { chat } = await open({ page, url, mode: "Live" });
  await chat.askFor("pay 5 to Eve");
  const { other, stops } = await openBeside({ context, url }, chat, "SSE");
  await other.cards.waitFor();
  await other.write("weather in Rome");
  await other.dialog.getByText("This chat is live in another window").waitFor();
  assert.equal(await chat.cards.count(), 1, "the card of the other window was taken back");
  await other.dialog.getByRole("button", { name: "Cancel" }).click();
  assert.equal(await other.box.inputValue(), "weather in Rome");
  assert.equal((await chat.history()).pending.length, 1);
  await other.cards.waitFor();
  await other.box.press("Enter");
  await other.dialog.getByRole("button", { name: "Take over" }).click();
  for (const window of [chat, other]) await window.says(/Rome/);
  assert.equal(await other.page.getByRole("radio", { name: "Live" }).isChecked(), true);
  assert.deepEqual(stops, []);
  assert.equal((await chat.history()).pending.length, 0);
  await chat.cards.waitFor({ state: "detached" });
  return CONFLICT;
}

export async function typing_over_a_live_answer_of_another_window_asks_first({ page, context, url }) {
  const { chat } = await open({ page, url, mode: "Live" });
  await chat.ask("weather in Bern");
  const { other, stops } = await openBeside({ context, url }, chat, "WebSocket");
  await chat.write("count to 200");
  await other.hears(5);
  await other.write("weather in Rome");
  await other.dialog.getByText("This chat is live in another window").waitFor();
  await other.page.keyboard.press("Escape");
  await other.dialog.waitFor({ state: "detached" });
  await chat.hears(200);
  await other.hears(200);
  assert.deepEqual(stops, []);
  assert.equal(await other.box.inputValue(), "weather in Rome");
  return CONFLICT;
}

/** The states of a live chat, one after the other. */
async function liveStates({ page, context, url }, look) {
  const { chat } = await open({ page, url, mode: "Live" });
  await chat.ask("weather in Bern");
  await chat.askFor("count to 12 and pay 50 to Hanako");
  await look(page, "waiting");
  const { other } = await openBeside({ context, url }, chat, "SSE");
  await other.write("weather in Rome");
  await other.dialog.waitFor();
  await look(other.page, "take over");
  await other.page.close();
  await chat.approve();
  await chat.says(/I paid 50/);
  await page.getByRole("button", { name: /About the connection$/ }).click();
  await chat.dialog.getByText(/^\d+ ms$/).waitFor();
  await chat.assertFits();
  await look(page, "popover");
  await page.keyboard.press("Escape");
  await chat.write("count to 1000");
  await chat.answers.nth(2).waitFor();
  await chat.hears(5);
  await page.keyboard.press("Escape");
  await chat.interrupted.getByText("Interrupted").waitFor();
  await look(page, "interrupted");
  return CONFLICT;
}

export async function everybody_can_use_live_by_day({ page, context, url }) {
  await page.emulateMedia({ colorScheme: "light" });
  return liveStates({ page, context, url }, assertAccessible);
}

export async function everybody_can_use_live_by_night_on_a_phone({ page, context, url }) {
  await page.emulateMedia({ colorScheme: "dark" });
  await page.setViewportSize({ width: 360, height: 740 });
  await page.addInitScript(() => localStorage.setItem("adkwire-density", "compact"));
  return liveStates({ page, context, url }, assertAccessible);
}

export async function two_live_windows_are_in_step({ page, context, url }) {
  await allowLocation(context);
  const { chat } = await open({ page, url, mode: "Live" });
  await chat.ask("weather in Bern");
  const other = await context.newPage();
  const located = [await countLocating(page), await countLocating(other)];
  await page.reload();
  const beside = await new ChatPage({ page: other, url }).open(`#/c/${chat.chatId}`);
  await beside.liveState.getByText("Listening").waitFor();
  await chat.askFor("where am I");
  await beside.cards.waitFor();
  await beside.approve();
  for (const window of [chat, beside]) await window.says(/35\.68123/);
  assert.deepEqual([await located[0](), await located[1]()], [1, 0]);
  await beside.write("count to 20");
  for (const window of [chat, beside]) {
    await window.answers.nth(2).waitFor();
    await window.hears(20);
    await window.idle();
  }
  assert.deepEqual(await beside.transcript(), await chat.transcript());
  assert.equal((await chat.history()).messages.length, 6);
}

export async function failed_live_turn_is_sent_again({ page, url }) {
  const { chat } = await open({ page, url, mode: "Live" });
  await chat.write("fail");
  await chat.alert.getByRole("button", { name: "Retry" }).click();
  await page.getByRole("article", { name: "You" }).nth(1).waitFor();
  await chat.idle();
  await chat.alert.waitFor();
  await chat.ask("weather in Lima");
  const asked = (await chat.history()).messages.filter((message) => message.role === "user");
  assert.deepEqual(asked.map((message) => message.parts[0].text), ["fail", "fail", "weather in Lima"]);
}

export async function leaving_a_live_chat_does_not_end_its_answer({ page, url }) {
  const { chat } = await open({ page, url, mode: "Live" });
  await chat.write("count to 60");
  await chat.hears(5);
  const id = chat.chatId;
  await page.getByRole("button", { name: "New chat" }).click();
  await page.getByRole("heading", { name: "What can I do for you?" }).waitFor();
  await chat.list.locator(`a[href="#/c/${id}"]`).click();
  await chat.hears(60);
  await chat.idle();
  assert.deepEqual(await chat.counted(), upTo(60));
}
