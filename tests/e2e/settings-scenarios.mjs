// What a person chooses about the page itself. One exported function per scenario, as in scenarios.mjs.
import assert from "node:assert/strict";
import { assertAccessible } from "./axe.mjs";
import { ChatPage } from "./chat-page.mjs";

async function openSettings(page) {
  await page.getByRole("button", { name: /^(Settings|設定)$/ }).click();
  const dialog = page.getByRole("dialog", { name: /^(Settings|設定)$/ });
  await dialog.waitFor();
  return dialog;
}

function looks(page) {
  return page.evaluate(() => {
    const { lang, dataset: { theme, density } } = document.documentElement;
    return { lang, theme, density };
  });
}

async function waitForLooks(page, wanted) {
  await page.waitForFunction((expected) => {
    const { lang, dataset: { theme, density } } = document.documentElement;
    return JSON.stringify({ lang, theme, density }) === JSON.stringify(expected);
  }, wanted);
}

export async function theme_density_and_language_are_kept_and_shared({ page, context, url }) {
  await page.emulateMedia({ colorScheme: "light" });
  await new ChatPage({ page, url }).open();
  const other = await context.newPage();
  await other.emulateMedia({ colorScheme: "light" });
  await new ChatPage({ page: other, url }).open();
  assert.deepEqual(await looks(page), { lang: "en", theme: "light", density: "comfortable" });
  const height = () => page.locator("#composer").evaluate((node) => node.getBoundingClientRect().height);
  const roomy = await height();
  const dialog = await openSettings(page);
  await dialog.getByRole("radio", { name: "Dark" }).check();
  await dialog.getByRole("radio", { name: "Compact" }).check();
  await dialog.getByRole("radio", { name: "日本語" }).check();
  const chosen = { lang: "ja", theme: "dark", density: "compact" };
  assert.deepEqual(await looks(page), chosen);
  await page.getByRole("dialog", { name: "設定" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("textbox", { name: "メッセージ" }).waitFor();
  assert.ok(await height() < roomy, "compact is not smaller");
  await waitForLooks(other, chosen);
  await other.getByRole("textbox", { name: "メッセージ" }).waitFor();
  await page.reload();
  await page.getByRole("textbox", { name: "メッセージ" }).waitFor();
  assert.deepEqual(await looks(page), chosen);
  const again = await openSettings(page);
  await again.getByRole("radio", { name: "ブラウザーに合わせる" }).check();
  await again.getByRole("radio", { name: "System" }).check();
  await page.keyboard.press("Escape");
  await page.getByRole("textbox", { name: "Message" }).waitFor();
  assert.equal((await looks(page)).theme, "light");
}

export async function japanese_browser_gets_a_japanese_page({ page, url }) {
  await page.addInitScript(() => Object.defineProperty(Navigator.prototype, "languages", { get: () => ["fr", "ja-JP", "en"] }));
  await page.goto(url);
  const box = page.getByRole("textbox", { name: "メッセージ" });
  await box.waitFor();
  assert.equal((await looks(page)).lang, "ja");
  for (const name of ["SSE", "WebSocket", "Gemini direct"]) await page.getByRole("radio", { name }).waitFor();
  await page.getByRole("button", { name: "花子に50ドル送金" }).click();
  const card = page.getByRole("log").getByRole("form");
  await card.getByText("エージェントが process_payment の実行を求めています。許可しますか?").waitFor();
  await page.getByRole("button", { name: "承認" }).click();
  await page.getByRole("article", { name: "エージェント" }).locator(".state").filter({ hasText: "完了" }).waitFor();
  const english = (await page.locator("body").innerText()).match(/\b(Send|Stop|Approve|Deny|Input|Output|done|New chat|Connected)\b/g);
  assert.deepEqual(english, null, "words that are not translated");
  await page.setViewportSize({ width: 360, height: 740 });
  await new ChatPage({ page, url }).assertFits();
}

export async function escape_closes_the_dialog_before_it_stops_the_answer({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  const stops = [];
  page.on("request", (request) => request.url().endsWith("/stop") && stops.push(request.url()));
  await chat.write("count to 1000");
  await chat.hears(5);
  const dialog = await openSettings(page);
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await chat.hears(10);
  assert.deepEqual(stops, []);
  await page.keyboard.press("Escape");
  await chat.send.waitFor();
  await chat.idle();
  await chat.answers.last().getByText("Stopped", { exact: true }).waitFor();
}

export async function nothing_moves_for_who_wants_no_motion({ page, url }) {
  await page.emulateMedia({ reducedMotion: "reduce" });
  const chat = await new ChatPage({ page, url }).open();
  await openSettings(page);
  assert.deepEqual(await page.evaluate(() => document.getAnimations().length), 0);
  await page.keyboard.press("Escape");
  await chat.write("count to 1000");
  await chat.hears(5);
  assert.deepEqual(await page.evaluate(() => document.getAnimations().length), 0);
}

/** What axe finds on the page in all that it can look like. */
async function lookAround(chat, page, where) {
  await assertAccessible(page, `${where}, welcome`);
  for (const text of ["weather in Tokyo", "think about rain", "cite", "draw a cat"]) await chat.ask(text);
  await page.locator("details.reasoning summary").click();
  await assertAccessible(page, `${where}, tools and sources`);
  await page.getByRole("region", { name: "Sources" }).getByRole("link").first().click();
  await page.getByRole("dialog").waitFor();
  await assertAccessible(page, `${where}, link`);
  await page.keyboard.press("Escape");
  await chat.askFor("pay 10 to Ann and 20 to Bob", 2);
  await assertAccessible(page, `${where}, questions`);
  await chat.write("fail");
  await chat.alert.waitFor();
  await assertAccessible(page, `${where}, error`);
  await openSettings(page);
  await assertAccessible(page, `${where}, settings`);
  await page.keyboard.press("Escape");
}

export async function everybody_can_use_the_page_by_day({ page, url }) {
  await page.emulateMedia({ colorScheme: "light" });
  await lookAround(await new ChatPage({ page, url }).open(), page, "light");
}

export async function everybody_can_use_the_page_by_night_on_a_phone({ page, url }) {
  await page.emulateMedia({ colorScheme: "dark" });
  await page.setViewportSize({ width: 360, height: 740 });
  await page.addInitScript(() => localStorage.setItem("adkwire-density", "compact"));
  const chat = await new ChatPage({ page, url }).open();
  await lookAround(chat, page, "dark");
  await chat.assertFits();
  await page.getByRole("button", { name: "Chats" }).click();
  await chat.list.getByRole("link").first().waitFor();
  await assertAccessible(page, "dark, menu");
}

export async function standing_answers_are_listed_and_taken_back({ page, url }) {
  const hostile = "<img src=x onerror=alert(1)>";
  let grants = [
    { id: 3, tool: "process_payment", scope: "always", sameArguments: true, input: { to: hostile }, at: "2026-11-16T00:04:56.954Z" },
    { id: 2, tool: "get_location", scope: "chat", sameArguments: false, chat: "c1", chatTitle: hostile, at: "2026-11-15T00:04:56.954Z" },
  ];
  await page.route("**/api/grants", (route) => route.fulfill({ json: { grants, next: 2 } }));
  await page.route("**/api/grants?before=2", (route) => route.fulfill({
    json: { grants: [{ id: 1, tool: "old_tool", scope: "always", sameArguments: true }] },
  }));
  await page.route(/\/api\/grants\/\d+$/, (route) => {
    assert.equal(route.request().method(), "DELETE");
    grants = grants.filter(({ id }) => !route.request().url().endsWith(`/${id}`));
    return route.fulfill({ status: 204 });
  });
  await page.setViewportSize({ width: 360, height: 740 });
  const chat = await new ChatPage({ page, url }).open();
  const dialog = await openSettings(page);
  await dialog.getByRole("button", { name: "Show standing answers" }).click();
  const rows = dialog.getByRole("list", { name: "Standing answers" }).getByRole("listitem");
  await rows.nth(1).waitFor();
  assert.match(await rows.nth(0).innerText(), /process_payment.*in all chats.*since Nov 16, 2026/s);
  assert.match(await rows.nth(1).innerText(), /get_location.*in the chat <img src=x/s);
  await dialog.getByRole("button", { name: "Show more" }).click();
  await rows.nth(2).waitFor();
  await assertAccessible(page, "standing answers");
  await chat.assertFits();
  assert.equal(await dialog.locator("img").count(), 0);
  await dialog.getByRole("button", { name: "Take back get_location" }).press("Enter");
  await rows.filter({ hasText: "get_location" }).waitFor({ state: "detached" });
  assert.equal(await rows.count(), 2);
  assert.deepEqual(grants.map(({ id }) => id), [3]);
}
