// The list of chats. One exported function per scenario, as in scenarios.mjs.
import assert from "node:assert/strict";
import { assertAccessible } from "./axe.mjs";
import { ChatPage } from "./chat-page.mjs";

const rowOf = (chat, id) => chat.list.getByRole("listitem").filter({ has: chat.page.locator(`a[href="#/c/${id}"]`) });
const titles = (chat) => chat.list.locator("li .title").allInnerTexts();
const focusedTitle = (page) => page.evaluate(() => document.activeElement?.querySelector(".title")?.textContent ?? "");

/** Begins chats with these messages, the last one is open at the end, and returns their ids. */
async function begin(chat, ...texts) {
  const ids = [];
  for (const text of texts) {
    await chat.page.getByRole("button", { name: "New chat" }).click();
    await chat.ask(text);
    ids.push(chat.chatId);
    await rowOf(chat, chat.chatId).waitFor();
  }
  return ids;
}

/** Deletes everything that other scenarios have left. */
async function openEmpty({ page, url }) {
  const { chats } = await (await page.request.get(new URL("api/chats?limit=1000", url).href)).json();
  for (const { id } of chats) await page.request.delete(new URL(`api/chats/${id}`, url).href);
  return new ChatPage({ page, url }).open();
}

async function openOther({ context, url }, hash = "") {
  return new ChatPage({ page: await context.newPage(), url }).open(hash);
}

export async function chats_are_searched_by_title({ page, url }) {
  const chat = await openEmpty({ page, url });
  await begin(chat, "weather in Oslo", "count to 3", "WEATHER in Tokyo");
  const search = page.getByRole("searchbox", { name: "Search chats" });
  await page.keyboard.press("Control+k");
  assert.equal(await search.evaluate((node) => node === document.activeElement), true);
  await search.fill("  weather");
  assert.deepEqual(await titles(chat), ["WEATHER in Tokyo", "weather in Oslo"]);
  await chat.list.getByRole("status").filter({ hasText: "2 found" }).waitFor();
  await search.fill("in oslo weather");
  await search.press("Enter");
  await chat.says(/Oslo/);
  await search.fill("nothing of the kind");
  await chat.list.getByText("No chat has such a title.").waitFor();
  assert.deepEqual(await titles(chat), []);
  await assertAccessible(page, "a search");
  await search.press("Escape");
  assert.equal((await titles(chat)).length, 3);
  await search.press("Escape");
  await page.waitForFunction(() => document.activeElement?.id === "composer");
  await page.keyboard.type("a/b");
  assert.equal(await chat.box.inputValue(), "a/b");
  await chat.box.blur();
  await page.keyboard.press("/");
  assert.equal(await search.evaluate((node) => node === document.activeElement), true);
  assert.equal(await search.inputValue(), "");
}

export async function chat_is_renamed_in_place({ page, context, url }) {
  const chat = await openEmpty({ page, url });
  const [first] = await begin(chat, "weather in Oslo", "count to 3");
  const other = await openOther({ context, url });
  await rowOf(chat, first).hover();
  await rowOf(chat, first).getByRole("button", { name: "Rename weather in Oslo" }).click();
  const box = page.getByRole("textbox", { name: "New title" });
  assert.equal(await box.inputValue(), "weather in Oslo");
  await assertAccessible(page, "a new title");
  await box.fill("  Norway <b>2026</b> ");
  await box.press("Enter");
  for (const tab of [chat, other]) await rowOf(tab, first).getByText("Norway <b>2026</b>").waitFor();
  assert.equal(await rowOf(chat, first).getByText("unread").count(), 0, "a new title is no news");
  await page.waitForFunction(() => document.activeElement?.matches("nav li > a"));
  await page.keyboard.press("F2");
  await box.fill("never mind");
  await box.press("Escape");
  await box.waitFor({ state: "detached" });
  await rowOf(chat, first).getByText("Norway <b>2026</b>").waitFor();
  await page.reload();
  await rowOf(chat, first).getByText("Norway <b>2026</b>").waitFor();
}

export async function refused_title_says_so({ page, url }) {
  const chat = await openEmpty({ page, url });
  const [only] = await begin(chat, "weather in Oslo");
  const error = { code: "internal", message: "The store is away." };
  await page.route("**/api/chats/*", (route) =>
    route.request().method() === "PATCH" ? route.fulfill({ status: 500, json: { error } }) : route.continue());
  await rowOf(chat, only).getByRole("link").press("F2");
  await page.getByRole("textbox", { name: "New title" }).fill("Norway");
  await page.keyboard.press("Enter");
  await chat.alert.filter({ hasText: "not renamed: The store is away." }).waitFor();
  await rowOf(chat, only).getByText("weather in Oslo").waitFor();
  return /status of 500/;
}

export async function list_is_used_by_keys({ page, url }) {
  const chat = await openEmpty({ page, url });
  await begin(chat, "count to 1", "count to 2", "count to 3");
  await page.getByRole("searchbox").focus();
  await page.keyboard.press("ArrowDown");
  const expected = [["", 3], ["ArrowDown", 2], ["End", 1], ["ArrowDown", 1], ["ArrowUp", 2], ["Home", 3], ["ArrowUp", 3], ["ArrowDown", 2]];
  for (const [key, number] of expected) {
    if (key) await page.keyboard.press(key);
    assert.equal(await focusedTitle(page), `count to ${number}`, key);
  }
  await page.keyboard.press("Enter");
  // The message box takes the focus when the chat is there.
  await chat.answers.first().filter({ hasText: /^1 2$/ }).waitFor();
  assert.equal(await chat.list.locator('a[tabindex="0"]').count(), 1, "the list is more than one stop of Tab");
  await chat.list.locator("a[aria-current]").focus();
  await page.keyboard.press("Delete");
  await page.waitForFunction(() => document.activeElement?.textContent === "Delete?");
  assert.equal((await titles(chat)).length, 3, "deleted without a question");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll("nav li").length === 2);
  assert.deepEqual(await titles(chat), ["count to 3", "count to 1"]);
}

export async function history_is_cleared_after_a_question({ page, context, url }) {
  const chat = await openEmpty({ page, url });
  const [first] = await begin(chat, "weather in Oslo", "count to 3");
  const other = await openOther({ context, url });
  await rowOf(other, first).waitFor();
  const clear = page.getByRole("button", { name: "Clear history" });
  const dialog = page.getByRole("dialog", { name: "Delete all chats?" });
  await clear.click();
  await assertAccessible(page, "the question whether to clear");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  assert.equal((await titles(chat)).length, 2);
  await clear.click();
  await dialog.getByRole("button", { name: "Delete all chats" }).click();
  for (const tab of [chat, other]) await tab.list.getByText("Your chats will be listed here.").waitFor();
  await page.getByRole("heading", { name: "What can I do for you?" }).waitFor();
  assert.equal(await dialog.count(), 0);
  const { chats } = await (await page.request.get(new URL("api/chats", url).href)).json();
  assert.deepEqual(chats, []);
}

export async function answers_that_were_not_seen_are_marked({ page, context, url }) {
  const chat = await openEmpty({ page, url });
  const [first, second] = await begin(chat, "weather in Oslo", "weather in Lima");
  assert.equal(await chat.list.getByText("unread").count(), 0);
  const link = (id) => rowOf(chat, id).getByRole("link");
  // It ends while another chat is shown.
  await chat.write("count to 100");
  await chat.hears(5);
  await link(first).click();
  await chat.says(/Oslo/);
  await page.getByRole("link", { name: /weather in Lima.*unread/ }).waitFor();
  await page.reload();
  await page.getByRole("link", { name: /weather in Lima.*unread/ }).waitFor();
  await link(second).click();
  await chat.hears(100);
  await rowOf(chat, second).getByText("unread").waitFor({ state: "detached" });
  // It is asked elsewhere: by another tab that shows the chat, which has seen it for the whole browser.
  const other = await openOther({ context, url }, `#/c/${first}`);
  await other.ask("weather in Rome");
  await rowOf(other, first).locator(".mark").waitFor({ state: "detached" });
  await page.waitForFunction(() => !document.querySelector("nav li .mark"));
}

export async function title_is_readable_beside_its_marks({ page, url }) {
  const chat = await openEmpty({ page, url });
  await chat.askFor("pay 50 to Hanako");
  const row = rowOf(chat, chat.chatId);
  await page.getByRole("button", { name: "New chat" }).click();
  await page.getByRole("link", { name: /pay 50 to Hanako.*waiting for you/ }).waitFor();
  for (const width of [1100, 360]) {
    await page.setViewportSize({ width, height: 740 });
    if (width === 360) await page.getByRole("button", { name: "Chats" }).click();
    await row.waitFor();
    const cut = await row.locator(".title").evaluate((node) => node.scrollWidth - node.clientWidth);
    assert.ok(cut <= 0, `the title is cut by ${cut} px at ${width}`);
    await assertAccessible(page, `a waiting chat at ${width}`);
  }
}
