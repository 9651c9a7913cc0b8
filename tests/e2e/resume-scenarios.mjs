// Reloads, and connections that break. The server has a tool that takes until it is told; the network takes orders.
import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { upTo } from "./chat-page.mjs";
import { BROKEN, FaultPage } from "./fault-page.mjs";

async function reload(chat) {
  await chat.page.reload();
  await chat.answers.last().waitFor();
}

/** Reloads in mid-tool, in mid-approval and in mid-text, beside a page that is never reloaded. */
async function reloadEverywhere(chat, other) {
  await rm(join(chat.folder, "weather"), { force: true });
  await chat.write("weather in Paris and pay 5 to Eve then count to 60");
  await chat.call("get_weather").waitFor();
  await other.open(`#/c/${chat.chatId}`);
  await other.call("get_weather").filter({ hasText: "running" }).waitFor();
  await reload(other);
  await other.call("get_weather").filter({ hasText: "running" }).waitFor();
  await chat.tellTheWeather();
  for (const each of [chat, other]) await each.cards.waitFor();
  await reload(other);
  await other.cards.waitFor();
  assert.deepEqual(await other.transcript(), await chat.transcript());
  await other.approve();
  await other.hears(10);
  await reload(other);
}

export async function reloads_show_the_same_as_no_reload({ page, context, url }) {
  const chat = await new FaultPage({ page, url }).open();
  const other = new FaultPage({ page: await context.newPage(), url });
  await reloadEverywhere(chat, other);
  for (const each of [chat, other]) {
    await each.hears(60);
    await each.idle();
  }
  assert.deepEqual((await other.counted()).slice(-60), upTo(60));
  assert.deepEqual(await other.transcript(), await chat.transcript());
  assert.equal(await chat.state("get_weather"), "done");
  assert.equal(await chat.state("process_payment"), "done");
}

async function survives(chat) {
  await chat.write("count to 1000");
  await chat.hears(10);
  await chat.breakDown();
  await chat.connection.getByText("Resumed, nothing lost").waitFor();
  await chat.countsOn();
  assert.equal(await chat.alert.count(), 0);
}

export async function lost_connection_is_resumed({ page, url }) {
  const chat = await new FaultPage({ page, url }).open();
  await survives(chat);
  assert.deepEqual((await chat.history()).messages.map((message) => message.role), ["user", "assistant"]);
  return BROKEN;
}

export async function lost_socket_is_resumed({ page, url }) {
  const chat = await new FaultPage({ page, url }).open();
  await page.getByRole("radio", { name: "WebSocket" }).check();
  const sockets = [];
  page.on("websocket", (socket) => sockets.push(socket.url()));
  await survives(chat);
  assert.ok(sockets.length > 1, `${sockets.length} sockets`);
  assert.deepEqual((await chat.history()).messages.map((message) => message.role), ["user", "assistant"]);
  return BROKEN;
}

export async function lost_live_connection_is_resumed({ page, url }) {
  const chat = await new FaultPage({ page, url, mode: "Live" }).open();
  await survives(chat);
  assert.deepEqual((await chat.history()).messages.map((message) => message.role), ["user", "assistant"]);
  await chat.askFor("pay 5 to Eve");
  await chat.breakDown();
  await chat.connection.getByText("Resumed, nothing lost").waitFor();
  await page.getByRole("button", { name: /About the connection$/ }).click();
  const number = (name) => chat.dialog.locator("dl > div").filter({ hasText: name }).locator("dd").innerText();
  assert.equal(await number("Mode"), "Live");
  assert.equal(await number("Lost"), "0");
  assert.equal(await number("Reconnects"), "2");
  assert.ok(Number(await number("Chunks received")) > 10);
  await chat.dialog.getByText(/^\d+ ms$/).waitFor();
  await page.keyboard.press("Escape");
  await chat.approve();
  await chat.says(/I paid 5.*Eve/);
  return BROKEN;
}

export async function answer_given_while_the_server_is_away_is_not_called_running({ page, url }) {
  const chat = await new FaultPage({ page, url }).open();
  for (const mode of ["SSE", "WebSocket"]) {
    await page.getByRole("radio", { name: mode }).check();
    await chat.askFor("pay 5 to Eve");
    await chat.order("refuse");
    await chat.order("reset");
    await chat.connection.getByText(/^Reconnecting/).waitFor();
    await chat.approve();
    const card = chat.call("process_payment", mode === "SSE" ? 0 : 1).locator(".state");
    await card.filter({ hasText: "approved, waiting for the server" }).waitFor();
    await chat.order("accept");
    await card.filter({ hasText: "done" }).waitFor();
    await chat.idle();
  }
  return BROKEN;
}

export async function rest_that_is_gone_is_told_and_loaded({ page, url }) {
  const chat = await new FaultPage({ page, url }).open();
  await chat.write("count to 1000");
  await chat.hears(10);
  const error = { code: "not-recovered", message: "This answer is no longer kept as a stream." };
  await page.route("**/stream", (route) => route.fulfill({ status: 410, json: { error } }));
  await chat.order("reset");
  await chat.alert.filter({ hasText: "was not recovered" }).waitFor();
  await chat.connection.getByText("Not recovered").waitFor();
  await page.unroute("**/stream");
  await chat.alert.getByRole("button", { name: "Load the chat again" }).click();
  await chat.stop.waitFor();
  await chat.countsOn();
  assert.equal(await chat.answers.count(), 1);
  return new RegExp(`${BROKEN.source}|status of 410`);
}

export async function run_that_is_no_longer_kept_is_loaded_with_the_history({ page, context, url }) {
  const chat = await new FaultPage({ page, url }).open();
  await chat.write("count to 1000");
  await chat.hears(10);
  const other = new FaultPage({ page: await context.newPage(), url });
  const error = { code: "not-recovered", message: "This answer is no longer kept as a stream." };
  await other.page.route("**/stream?run=*", async (route) => {
    await chat.halt();
    await route.fulfill({ status: 410, json: { error } });
  });
  await other.open(`#/c/${chat.chatId}`);
  await other.answers.first().waitFor();
  await other.idle();
  assert.deepEqual(await other.counted(), await chat.counted());
  assert.equal(await other.alert.count(), 0);
  return /status of 410/;
}
