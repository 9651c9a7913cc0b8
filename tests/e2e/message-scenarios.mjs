// What a person does with messages. One exported function per scenario, as in scenarios.mjs.
import assert from "node:assert/strict";
import { assertAccessible } from "./axe.mjs";
import { ChatPage, png } from "./chat-page.mjs";

const mine = (page) => page.getByRole("article", { name: "You" });

export async function message_is_copied({ page, context, url }) {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const chat = await new ChatPage({ page, url }).open();
  const answer = await chat.ask("count to 3");
  const pasted = () => page.evaluate(() => navigator.clipboard.readText());
  await answer.getByRole("button", { name: "Copy message" }).click();
  await answer.getByRole("button", { name: "Copied" }).waitFor();
  assert.equal((await pasted()).trim(), (await answer.locator(":scope > .text").innerText()).trim());
  await mine(page).hover();
  await mine(page).getByRole("button", { name: "Copy message" }).click();
  await mine(page).getByRole("button", { name: "Copied" }).waitFor();
  assert.equal(await pasted(), "count to 3");
}

export async function edited_message_replaces_what_came_after_it({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.ask("weather in Oslo");
  const first = (await chat.history()).messages[0].id;
  await chat.ask("weather in Lima");
  await mine(page).first().hover();
  await mine(page).first().getByRole("button", { name: "Edit" }).click();
  const box = page.getByRole("textbox", { name: "Your text" });
  assert.equal(await box.inputValue(), "weather in Oslo");
  const sent = page.waitForRequest((request) => request.method() === "POST" && request.url().endsWith("/api/chat"));
  await box.fill("weather in Cairo");
  await box.press("Enter");
  const { message, messageId, trigger } = (await sent).postDataJSON();
  assert.deepEqual([message.id, messageId, trigger], [first, first, "submit-message"]);
  await chat.says(/Cairo/);
  assert.deepEqual(await mine(page).allInnerTexts(), ["weather in Cairo"]);
  const { messages } = await chat.history();
  assert.deepEqual(messages.map(({ role }) => role), ["user", "assistant"]);
  assert.equal(messages[0].id, first);
  const before = await chat.transcript();
  await page.reload();
  await chat.answers.first().waitFor();
  assert.deepEqual(await chat.transcript(), before);
}

export async function edit_is_for_the_keyboard_too_and_keeps_images({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await page.getByLabel("Images", { exact: true }).setInputFiles({ name: "blue.png", mimeType: "image/png", buffer: png(30, 20) });
  await page.getByRole("img", { name: "blue.png" }).waitFor();
  await chat.ask("what is this");
  const edit = mine(page).getByRole("button", { name: "Edit" });
  const box = page.getByRole("textbox", { name: "Your text" });
  await edit.focus();
  await page.keyboard.press("Enter");
  await box.waitFor();
  await assertAccessible(page, "an edit");
  await page.keyboard.type(", really");
  await page.keyboard.press("Escape");
  await box.waitFor({ state: "detached" });
  await page.waitForFunction(() => document.activeElement?.getAttribute("aria-label") === "Edit");
  assert.deepEqual(await mine(page).allInnerTexts(), ["what is this"]);
  await page.keyboard.press("Enter");
  await box.waitFor();
  await page.keyboard.type(" thing");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await mine(page).filter({ hasText: "what is this thing" }).waitFor();
  await chat.answers.first().waitFor();
  await chat.idle();
  const [{ parts }] = (await chat.history()).messages;
  assert.deepEqual(parts.map(({ type, filename }) => filename ?? type).sort(), ["blue.png", "text"]);
  await chat.write("count to 1000");
  await chat.hears(5);
  assert.equal(await edit.count(), 0, "a message is edited while an answer is being written");
}

export async function reader_who_scrolled_up_jumps_to_the_latest({ page, url }) {
  await page.setViewportSize({ width: 700, height: 500 });
  const chat = await new ChatPage({ page, url }).open();
  const jump = page.getByRole("button", { name: "Jump to the latest" });
  await chat.ask("weather in Tokyo");
  await chat.ask("draw a cat");
  assert.equal(await jump.count(), 0);
  await chat.write("count to 1000");
  await chat.hears(5);
  await page.locator(".transcript").hover();
  await page.mouse.wheel(0, -400);
  await jump.waitFor();
  const top = () => page.locator(".transcript").evaluate((node) => node.scrollTop);
  const held = await top();
  await chat.hears((await chat.counted()).length + 20);
  assert.equal(await top(), held, "new text pulled the reader along");
  await assertAccessible(page, "scrolled up");
  await jump.press("Enter");
  await jump.waitFor({ state: "detached" });
  await page.waitForFunction(() => document.activeElement?.id === "composer");
  await chat.hears((await chat.counted()).length + 100);
  await page.waitForFunction(() => {
    const node = document.querySelector(".transcript");
    return node.scrollHeight - node.scrollTop - node.clientHeight < 2;
  });
}

export async function thoughts_say_how_long_they_took({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  const summary = (await chat.ask("think about rain")).locator("details.reasoning summary");
  assert.match(await summary.innerText(), /^Thought for /);
  const { messages: [, { id, parts }] } = await chat.history();
  const index = parts.findIndex(({ type }) => type === "reasoning");
  // As if it had been a long thought.
  await page.evaluate((key) => localStorage.setItem("adkwire-thinking", JSON.stringify({ [key]: { began: 0, ended: 83_400 } })),
    `${id}/${index}`);
  await page.reload();
  await summary.filter({ hasText: /^Thought for 1 min 23 s$/ }).waitFor();
  await page.evaluate(() => localStorage.removeItem("adkwire-thinking"));
  await page.reload();
  await summary.filter({ hasText: /^Thoughts$/ }).waitFor();
}

export async function image_is_enlarged_and_saved({ page, url }) {
  await page.setViewportSize({ width: 360, height: 740 });
  const chat = await new ChatPage({ page, url }).open();
  const answer = await chat.ask("draw a cat");
  await answer.getByRole("button", { name: /^Enlarge/ }).click();
  const dialog = page.getByRole("dialog");
  const picture = dialog.getByRole("img");
  await picture.waitFor();
  assert.equal(await picture.getAttribute("src"), await answer.getByRole("img").getAttribute("src"));
  await assertAccessible(page, "an enlarged image");
  const box = await dialog.boundingBox();
  assert.ok(box.x >= 0 && box.x + box.width <= 360, JSON.stringify(box));
  const download = page.waitForEvent("download");
  await dialog.getByRole("link", { name: "Save image" }).click();
  assert.match((await download).suggestedFilename(), /\.png$/);
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
}

/** Serves a chat of these answers, as a reloaded page gets them. */
async function openAnswers({ page, url }, answers) {
  const messages = answers.map((metadata, index) => ({
    id: `m${index}`, role: "assistant", parts: [{ type: "text", text: `Answer ${index}` }], ...(metadata ? { metadata } : {}),
  }));
  await page.route("**/api/chats/ended*", (route) => route.fulfill({
    json: { id: "ended", title: "ended", active: null, pending: [], messages },
  }));
  const chat = await new ChatPage({ page, url }).open("#/c/ended");
  await chat.answers.nth(answers.length - 1).waitFor();
  return chat;
}

export async function answer_says_how_it_ended({ page, url }) {
  const text = "The agent could not answer (ValueError). <b>Try</b> again.";
  const chat = await openAnswers({ page, url }, [
    { ended: "stopped" }, { ended: "interrupted", error: null }, { ended: "failed", error: { code: "ValueError", text } },
    { ended: "failed" }, { ended: null, error: null }, { ended: "sublimated" }, { ended: 7, error: 7 }, undefined,
  ]);
  const notes = await chat.answers.evaluateAll((nodes) => nodes.map((node) => node.querySelector(".note")?.textContent.trim() ?? ""));
  assert.deepEqual(notes, ["Stopped", "Interrupted", `This answer failed. ${text}`, "This answer failed.", "", "", "", ""]);
  assert.equal(await chat.answers.locator("b").count(), 0);
  await assertAccessible(page, "ends of answers");
  await page.emulateMedia({ colorScheme: "dark" });
  await page.setViewportSize({ width: 360, height: 740 });
  await chat.assertFits();
  await assertAccessible(page, "ends of answers, dark");
}

export async function answer_says_how_it_ended_after_a_reload({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.write("count to 1000");
  await chat.hears(5);
  await chat.halt();
  const note = chat.answers.locator(".note");
  assert.deepEqual(await note.allInnerTexts(), ["Stopped"]);
  await page.reload();
  await chat.hears(5);
  // A server that does not say how answers ended leaves nothing to show.
  const [, { metadata }] = (await chat.history()).messages;
  assert.deepEqual(await note.allInnerTexts(), metadata?.ended === "stopped" ? ["Stopped"] : []);
  await chat.write("fail");
  await chat.alert.waitFor();
  await page.reload();
  await chat.answers.nth(1).waitFor();
  const failed = (await chat.history()).messages.at(-1).metadata?.error?.text;
  const last = await chat.answers.nth(1).locator(".note").innerText();
  assert.equal(last, failed ? `This answer failed. ${failed}` : "No answer");
}

/** Messages as a history has them: a question, then its answer with a list and code, and so on. */
function conversation(count) {
  const answer = (index) => `Answer ${index}\n\n- one\n- two\n\n\`\`\`js\nconst x = ${index};\n\`\`\`\n\n${"Words of this answer. ".repeat(index % 20)}`;
  return Array.from({ length: count }, (_, index) => (index % 2
    ? { id: `m${index}`, role: "assistant", parts: [{ type: "text", text: answer(index) }] }
    : { id: `m${index}`, role: "user", parts: [{ type: "text", text: `Question ${index}` }] }));
}

/** Serves a long chat in pages, as the server does, and opens it. */
async function openLong({ page, url }, count) {
  const all = conversation(count);
  await page.route("**/api/chats/long?*", (route) => {
    const query = new URL(route.request().url()).searchParams;
    const until = query.has("before") ? all.slice(0, all.findIndex(({ id }) => id === query.get("before"))) : all;
    const messages = until.slice(-Number(query.get("limit")));
    const next = messages.length < until.length ? { next: messages[0].id } : {};
    return route.fulfill({ json: { id: "long", title: "long", active: null, pending: [], messages, ...next } });
  });
  const chat = await new ChatPage({ page, url }).open("#/c/long");
  await chat.answers.last().waitFor();
  return chat;
}

export async function long_chat_shows_its_end_first({ page, url }) {
  const chat = await openLong({ page, url }, 120);
  const articles = chat.log.getByRole("article");
  const earlier = page.getByRole("button", { name: "Show earlier messages" });
  assert.equal(await articles.count(), 50);
  await chat.answers.last().filter({ hasText: "Answer 119" }).waitFor();
  for (const [first, shown] of [["Question 70", 100], ["Question 20", 120]]) {
    await page.locator(".transcript").evaluate((node) => { node.scrollTop = 0; });
    const place = () => articles.filter({ hasText: new RegExp(`^${first}$`) }).evaluate((node) => node.getBoundingClientRect().top);
    const before = await place();
    await assertAccessible(page, "a long chat");
    await earlier.click();
    await page.waitForFunction((count) => document.querySelectorAll("article").length === count, shown);
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    const moved = Math.abs(await place() - before);
    assert.ok(moved < 60, `what was read moved by ${moved} px`);
  }
  await articles.first().filter({ hasText: "Question 0" }).waitFor();
  assert.equal(await earlier.count(), 0);
}

export async function messages_far_from_the_screen_are_not_laid_out({ page, url }) {
  const messages = conversation(1000);
  await page.route("**/api/chats/long?*", (route) => route.fulfill({
    json: { id: "long", title: "long", active: null, pending: [], messages },
  }));
  const chat = await new ChatPage({ page, url }).open("#/c/long");
  await chat.answers.nth(499).waitFor();
  const atEnd = () => page.waitForFunction(() => {
    const node = document.querySelector(".transcript");
    return node.scrollHeight - node.scrollTop - node.clientHeight < 2;
  });
  await atEnd();
  const drawn = () => page.evaluate(() => [...document.querySelectorAll("article > :first-child")]
    .filter((node) => node.checkVisibility({ contentVisibilityAuto: true })).length);
  await page.waitForFunction(() => [...document.querySelectorAll("article > :first-child")]
    .filter((node) => node.checkVisibility({ contentVisibilityAuto: true })).length < 100);
  await page.locator(".transcript").hover();
  for (let step = 0; step < 20; step++) await page.mouse.wheel(0, -3000);
  const jump = page.getByRole("button", { name: "Jump to the latest" });
  await jump.waitFor();
  assert.ok(await drawn() < 300, `${await drawn()} messages are laid out`);
  await jump.click();
  await atEnd();
  await chat.answers.last().filter({ hasText: "Answer 999" }).waitFor();
}
