// Calls that ask a person first. One exported function per scenario, as in scenarios.mjs.
import assert from "node:assert/strict";
import { ChatPage } from "./chat-page.mjs";
import { assertQuiet, assertReloadsTheSame, calls, open, reloadWithQuestions } from "./gate-page.mjs";

const FAILED = /status of 500/;

export async function approved_payment_is_made_once({ page, url, mode }) {
  const { chat, posts } = await open({ page, url, mode });
  const card = await chat.askFor("pay 50 to Hanako");
  assert.match(await card.innerText(), /asks to run process_payment/);
  const args = JSON.parse(await card.getByLabel("Arguments of process_payment").innerText());
  assert.equal(args.amount, 50);
  assert.equal(args.recipient, "Hanako");
  assert.equal((await calls(chat, "process_payment"))[0].state, "approval-requested");
  assert.equal(await page.getByRole("button", { name: "Regenerate" }).count(), 0);
  await assertQuiet(page, posts, 1);
  await chat.approve();
  await chat.says(/50.*Hanako/);
  await assertQuiet(page, posts, 2);
  assert.equal(posts?.[1].message.role ?? "assistant", "assistant");
  assert.equal(await chat.state("process_payment"), "done");
  const paid = await calls(chat, "process_payment");
  assert.deepEqual(paid.map((part) => part.state), ["output-available"]);
  assert.equal(await chat.answers.count(), 1);
  await assertReloadsTheSame(chat);
}

export async function denial_reaches_the_model_with_its_reason({ page, url, mode }) {
  const { chat, posts } = await open({ page, url, mode });
  const card = await chat.askFor("pay 50 to Hanako");
  const reason = card.getByRole("textbox");
  await reason.fill("she was paid yesterday");
  await reason.press("Enter");
  await chat.says(/refused.*she was paid yesterday/);
  await assertQuiet(page, posts, 2);
  assert.equal(await chat.state("process_payment"), "denied");
  await chat.call("process_payment").getByText("Reason: she was paid yesterday").waitFor();
  await assertReloadsTheSame(chat);
}

export async function denial_without_a_reason({ page, url, mode }) {
  const { chat, posts } = await open({ page, url, mode });
  await chat.askFor("pay 50 to Hanako");
  await chat.deny();
  await chat.says(/refused/);
  await assertQuiet(page, posts, 2);
  assert.equal(await chat.state("process_payment"), "denied");
  assert.equal(await chat.call("process_payment").locator(".failure").count(), 0);
}

export async function two_payments_get_an_answer_each({ page, url, mode }) {
  const { chat, posts } = await open({ page, url, mode });
  const status = page.locator(".needed");
  await chat.askFor("pay 10 to Ann and 20 to Bob", 2);
  assert.match(await status.innerText(), /^2 answers are needed/);
  await chat.approve();
  await chat.cards.nth(1).waitFor({ state: "detached" });
  // In live an approved call runs at once.
  assert.match(await chat.state("process_payment"), mode === "Live" ? /^(approved|done)/ : /^approved, waits for the rest$/);
  assert.match(await status.innerText(), /^Your answer is needed/);
  await assertQuiet(page, posts, 1);
  await chat.deny("not Bob");
  await chat.says(/10.*Ann/);
  await assertQuiet(page, posts, 2);
  assert.equal(await status.innerText(), "");
  assert.deepEqual((await calls(chat, "process_payment")).map((part) => part.state), ["output-available", "output-denied"]);
  assert.equal(await chat.state("process_payment", 1), "denied");
  await assertReloadsTheSame(chat);
}

export async function two_payments_denied_then_approved({ page, url, mode }) {
  const { chat, posts } = await open({ page, url, mode });
  await chat.askFor("pay 10 to Ann and 20 to Bob", 2);
  await chat.deny();
  await chat.cards.nth(1).waitFor({ state: "detached" });
  await chat.approve();
  await chat.says(/20.*Bob/);
  await assertQuiet(page, posts, 2);
  assert.deepEqual((await calls(chat, "process_payment")).map((part) => part.state), ["output-denied", "output-available"]);
}

export async function payments_one_after_the_other({ page, url, mode }) {
  const { chat, posts } = await open({ page, url, mode });
  for (const [name, count] of [["Ann", 2], ["Bob", 4]]) {
    await chat.askFor(`pay 10 to ${name}`);
    await chat.approve();
    await chat.says(new RegExp(name));
    await assertQuiet(page, posts, count);
  }
  assert.equal(await chat.answers.count(), 2);
}

export async function card_that_waits_survives_a_reload({ page, url, mode }) {
  const { chat, posts } = await open({ page, url, mode });
  await chat.askFor("pay 10 to Ann and 20 to Bob", 2);
  const before = await chat.transcript();
  const row = chat.list.getByRole("listitem").filter({ hasText: "waiting for you" });
  await row.first().waitFor();
  await reloadWithQuestions(chat, 2);
  assert.deepEqual(await chat.transcript(), before);
  await assertQuiet(page, posts, 1);
  await chat.approve();
  await chat.cards.nth(1).waitFor({ state: "detached" });
  await chat.approve();
  await chat.says(/Ann.*Bob/s);
  await assertQuiet(page, posts, 2);
  assert.deepEqual((await calls(chat, "process_payment")).map((part) => part.state), ["output-available", "output-available"]);
  await row.filter({ has: page.locator(`a[href="#/c/${chat.chatId}"]`) }).waitFor({ state: "detached" });
}

export async function reload_right_after_approving_pays_once({ page, url, mode }) {
  const { chat, posts } = await open({ page, url, mode });
  await chat.askFor("pay 50 to Hanako then count to 100");
  const answered = page.waitForResponse("**/api/chat");
  await chat.approve();
  await answered;
  await page.reload();
  await chat.hears(100);
  await chat.idle();
  await assertQuiet(page, posts, 2);
  assert.equal(await chat.state("process_payment"), "done");
  assert.deepEqual((await calls(chat, "process_payment")).map((part) => part.state), ["output-available"]);
  assert.equal(await chat.answers.count(), 1);
}

/** A second tab on a chat. No news reach it, so that it does not know what the first one does. */
async function openWithoutNews(context, chat) {
  const page = await context.newPage();
  // A browser without locks does not share either.
  await page.addInitScript(() => delete Navigator.prototype.locks);
  await page.route("**/api/events", (route) => route.abort("connectionrefused"));
  const other = await new ChatPage({ page, url: chat.url }).open(`#/c/${chat.chatId}`);
  await other.cards.waitFor();
  return other;
}

const NO_NEWS = /ERR_CONNECTION_REFUSED/;

export async function two_tabs_pay_once({ page, context, url }) {
  const { chat } = await open({ page, url });
  await chat.askFor("pay 50 to Hanako");
  const other = await openWithoutNews(context, chat);
  await chat.approve();
  await chat.says(/50.*Hanako/);
  assert.equal(await other.cards.count(), 1, "the other tab knows already");
  await other.deny("too late");
  await other.says(/I paid 50.*Hanako/);
  assert.equal(await other.state("process_payment"), "done");
  assert.deepEqual((await calls(chat, "process_payment")).map((part) => part.state), ["output-available"]);
  return NO_NEWS;
}

export async function card_answered_elsewhere_is_settled_when_looked_at({ page, context, url }) {
  const { chat } = await open({ page, url });
  await chat.askFor("pay 10 to Ann");
  const other = await openWithoutNews(context, chat);
  await chat.deny("no");
  await chat.says(/did not make the payment/);
  // Both tabs are in front for this browser, so the event that a person causes is made.
  await other.page.evaluate(() => window.dispatchEvent(new Event("focus")));
  await other.says(/did not make the payment/);
  assert.equal(await other.state("process_payment"), "denied");
  assert.deepEqual(await other.transcript(), await chat.transcript());
  return NO_NEWS;
}

export async function double_click_pays_once({ page, url, mode }) {
  const { chat, posts } = await open({ page, url, mode });
  await chat.askFor("pay 50 to Hanako");
  await chat.cards.getByRole("button", { name: "Approve" }).dblclick();
  await chat.says(/Hanako/);
  await assertQuiet(page, posts, 2);
  assert.deepEqual((await calls(chat, "process_payment")).map((part) => part.state), ["output-available"]);
}

export async function double_click_answers_one_card({ page, url, mode }) {
  const { chat, posts } = await open({ page, url, mode });
  await chat.askFor("pay 10 to Ann and 20 to Bob", 2);
  await chat.approve();
  await chat.cards.nth(1).waitFor({ state: "detached" });
  // The second half of a double click, on the card that has moved to where the first one was.
  await chat.cards.getByRole("button", { name: "Approve" }).hover();
  await page.mouse.down({ clickCount: 2 });
  await page.mouse.up({ clickCount: 2 });
  assert.equal(await chat.cards.count(), 1);
  await assertQuiet(page, posts, 1);
}

export async function typing_over_a_card_withdraws_it({ page, url, mode }) {
  const { chat, posts } = await open({ page, url, mode });
  await chat.askFor("pay 10 to Ann and 20 to Bob", 2);
  await chat.approve();
  await chat.cards.nth(1).waitFor({ state: "detached" });
  await chat.write("weather in Oslo");
  await chat.cards.first().waitFor({ state: "detached" });
  // A live connection tells at once what became of the calls; the first one has run by then.
  const states = mode === "Live" ? ["done", "failed"] : ["approved, not run", "not answered"];
  for (const [index, state] of states.entries()) await chat.call("process_payment", index).getByText(state, { exact: true }).waitFor();
  await chat.says(/Oslo/);
  await assertQuiet(page, posts, 2);
  const first = mode === "Live" ? "output-available" : "output-error";
  assert.deepEqual((await calls(chat, "process_payment")).map((part) => part.state), [first, "output-error"]);
  assert.equal((await chat.history()).pending.length, 0);
  await page.reload();
  await chat.says(/Oslo/);
  assert.equal(await chat.cards.count(), 0);
  assert.equal(await chat.state("process_payment", 1), "failed");
}

export async function answers_by_keyboard_only({ page, url, mode }) {
  const { chat, posts } = await open({ page, url, mode });
  await page.keyboard.type("pay 10 to Ann and 20 to Bob");
  await page.keyboard.press("Enter");
  await chat.cards.nth(1).waitFor();
  await chat.idle();
  const focused = () => page.evaluate(() => {
    const node = document.activeElement;
    return node.getAttribute("aria-label") ?? node.textContent;
  });
  assert.equal(await focused(), "Message");
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Shift+Tab");
  assert.match(await focused(), /^2 answers are needed/);
  await page.keyboard.press("Enter");
  const order = [];
  for (let step = 0; step < 5; step++) {
    await page.keyboard.press("Tab");
    order.push(await focused());
  }
  const reason = "Reason to deny process_payment, optional";
  assert.deepEqual(order, ["Edit", "Arguments of process_payment", "Approve", "Deny", reason]);
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Enter");
  await chat.cards.nth(1).waitFor({ state: "detached" });
  await page.keyboard.press("Enter");
  assert.equal(await chat.cards.count(), 1, "an Enter too many answered the next card");
  for (let step = 0; step < 5; step++) await page.keyboard.press("Tab");
  assert.equal(await focused(), reason);
  await page.keyboard.type("not Bob");
  await page.keyboard.press("Enter");
  await chat.says(/Ann/);
  await assertQuiet(page, posts, 2);
  assert.equal(await focused(), "Message");
  await chat.call("process_payment", 1).getByText("Reason: not Bob").waitFor();
}

export async function cards_fit_a_phone({ page, url, mode }) {
  await page.setViewportSize({ width: 360, height: 740 });
  const { chat } = await open({ page, url, mode });
  await chat.askFor(`pay 10 to ${"Ann".repeat(40)} and 20 to Bob`, 2);
  await chat.assertFits();
  for (const button of await chat.cards.getByRole("button").all()) {
    const { width, height } = await button.boundingBox();
    assert.ok(width >= 40 && height >= 40, `${width} x ${height} is too small for a finger`);
  }
  await chat.approve();
  await chat.cards.nth(1).waitFor({ state: "detached" });
  await chat.deny("a".repeat(200));
  await chat.says(/Ann/);
  await chat.askFor("play track 0");
  await chat.approve();
  await page.getByRole("button", { name: /Stop the music/ }).waitFor();
  await chat.idle();
  await chat.assertFits();
}

/** Refuses the next message to the chat as a server that fails does. */
async function refuseNextAnswer(page) {
  const error = { code: "internal", message: "The store is away.", hint: "Try again in a minute." };
  await page.route("**/api/chat", (route) => route.fulfill({ status: 500, json: { error } }), { times: 1 });
}

export async function answer_that_was_refused_can_be_given_again({ page, url, mode }) {
  const { chat, posts } = await open({ page, url, mode });
  await chat.askFor("pay 50 to Hanako");
  await refuseNextAnswer(page);
  await chat.approve();
  await chat.alert.filter({ hasText: "The store is away" }).waitFor();
  await chat.cards.waitFor();
  await assertQuiet(page, posts, 2);
  await chat.approve();
  await chat.says(/Hanako/);
  await assertQuiet(page, posts, 3);
  assert.equal(await chat.alert.count(), 0);
  assert.deepEqual((await calls(chat, "process_payment")).map((part) => part.state), ["output-available"]);
  return FAILED;
}

const chunks = (...list) => `${list.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("")}data: [DONE]\n\n`;

/** Answers what the page sends next with a stream of our own. */
async function answerWith(page, ...list) {
  await page.route("**/api/chat", (route) => route.fulfill({
    headers: { "content-type": "text/event-stream", "x-vercel-ai-ui-message-stream": "v1" },
    body: chunks({ type: "start", messageId: route.request().postDataJSON().message.id }, ...list),
  }));
}

export async function server_without_an_answer_is_not_asked_for_ever({ page, url, mode }) {
  const { chat, posts } = await open({ page, url, mode });
  await chat.askFor("pay 50 to Hanako");
  await answerWith(page, { type: "finish" });
  await chat.approve();
  while (posts.length < 4) await (await page.waitForResponse("**/api/chat")).finished();
  await chat.idle();
  await assertQuiet(page, posts, 4);
}

async function approveBoth(chat) {
  await chat.approve();
  await chat.cards.nth(1).waitFor({ state: "detached" });
  await chat.approve();
}

export async function answer_that_failed_can_be_given_again({ page, url, mode }) {
  const { chat, posts } = await open({ page, url, mode });
  await chat.askFor("pay 10 to Ann and 20 to Bob", 2);
  await answerWith(page, { type: "error", errorText: "The store is away. Try again in a minute." });
  await approveBoth(chat);
  await chat.alert.filter({ hasText: "The store is away" }).waitFor();
  await chat.cards.nth(1).waitFor();
  await assertQuiet(page, posts, 2);
  await page.unroute("**/api/chat");
  await chat.alert.getByRole("button", { name: "Retry" }).click();
  await chat.alert.waitFor({ state: "detached" });
  await assertQuiet(page, posts, 2);
  await approveBoth(chat);
  await chat.says(/Ann.*Bob/s);
  await assertQuiet(page, posts, 3);
}

function question(input, details) {
  return {
    id: "m2", role: "assistant", parts: [
      { type: "step-start" },
      { type: "tool-wire_money", toolCallId: "c1", state: "approval-requested", input, approval: { id: "a1" } },
      { type: "data-approval", id: "a1", data: { toolCallId: "c1", scopes: ["once"], ...details } },
    ],
  };
}

/** Serves a chat whose last message `current` gives. */
async function serveChat(page, current) {
  const asked = { id: "m1", role: "user", parts: [{ type: "text", text: "go" }] };
  await page.route(/\/api\/chats\/served/, (route) => route.fulfill({
    json: {
      id: "served", title: "served", active: null, pending: [],
      messages: [asked, current()],
    },
  }));
}

export async function card_hides_nothing_and_runs_nothing({ page, url }) {
  const input = { note: "<img src=x onerror=alert(1)>", to: "Bob\u202Egnirts\u200B", long: "a".repeat(5000) };
  await serveChat(page, () => question(input, { hint: "<b>bold</b>", payload: { limit: 3 } }));
  const chat = await new ChatPage({ page, url }).open("#/c/served");
  const shown = await chat.cards.getByLabel("Arguments of wire_money").innerText();
  assert.deepEqual(JSON.parse(shown), input);
  assert.ok(shown.includes("Bob\\u202egnirts\\u200b"), shown.slice(0, 200));
  await chat.cards.getByText("<b>bold</b>").waitFor();
  await chat.cards.getByRole("button", { name: "Edit" }).click();
  // What a text field would hide is edited as JSON.
  assert.equal(await chat.cards.getByRole("textbox", { name: "Arguments of wire_money" }).inputValue(), shown);
  assert.equal(await chat.cards.getByRole("textbox", { name: "limit" }).inputValue(), "3");
  assert.equal(await chat.cards.locator("img, b").count(), 0);
  assert.equal(await chat.log.locator(".json-card").count(), 0);
  await chat.assertFits();
}

export async function expired_card_is_settled_by_the_server({ page, url }) {
  const over = Date.now() + 3000;
  const asked = question({ amount: 1 }, { expiresAt: new Date(over).toISOString() });
  const expired = structuredClone(asked);
  Object.assign(expired.parts[1], { state: "output-error", errorText: "Nobody answered in time." });
  await serveChat(page, () => (Date.now() < over ? asked : expired));
  const chat = await new ChatPage({ page, url }).open("#/c/served");
  assert.match(await chat.cards.getByRole("timer").innerText(), /^Expire/);
  await chat.cards.waitFor({ state: "detached" });
  await chat.call("wire_money").getByText("Nobody answered in time.").waitFor();
}
