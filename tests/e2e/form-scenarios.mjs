// Questions as forms: other arguments, payloads, scopes. The page against the agent of form_agent.py.
import assert from "node:assert/strict";
import { assertAccessible } from "./axe.mjs";
import { ChatPage } from "./chat-page.mjs";
import { assertQuiet, calls, open } from "./gate-page.mjs";

/** Opens the page, and notes what it sends by the calls route. */
async function openForms({ page, url }) {
  const { chat, posts } = await open({ page, url });
  const answers = [];
  page.on("request", (request) => {
    if (/\/calls\/[^/]+$/.test(request.url())) answers.push(request.postData());
  });
  return { chat, posts, answers, card: chat.cards.first() };
}

async function audit(chat) {
  const response = await chat.page.request.get(new URL(`api/chats/${chat.chatId}/audit`, chat.url).href);
  return (await response.json()).entries;
}

const approve = (card) => card.getByRole("button", { name: "Approve" }).click();

export async function payload_is_chosen_by_the_person({ page, url }) {
  const { chat, posts, answers, card } = await openForms({ page, url });
  await chat.askFor("book");
  await card.getByText("Which day?").waitFor();
  const day = card.getByRole("radiogroup", { name: "day" });
  assert.equal(await day.getByRole("radio", { checked: true }).count(), 0, "a day is chosen already");
  await approve(card);
  await card.getByText("Choose one.").waitFor();
  assert.equal(answers.length, 0);
  assert.equal(await page.evaluate(() => document.activeElement.type), "radio");
  await assertAccessible(page, "payload with a problem");
  await day.getByRole("radio", { name: "Saturday" }).check();
  await card.getByRole("textbox", { name: "name" }).fill("Zoë");
  await card.getByRole("textbox", { name: "seats" }).fill("12345678901234567890");
  await card.getByRole("switch", { name: "outside" }).click();
  await approve(card);
  await chat.says(/'day': 'Saturday', 'name': 'Zoë', 'seats': 12345678901234567890, 'outside': True/);
  await assertQuiet(page, posts, 1);
  assert.equal(answers.length, 1);
  assert.equal(await chat.state("book_table"), "done");
}

export async function payload_may_be_written_as_json({ page, url }) {
  const { chat, card } = await openForms({ page, url });
  await chat.askFor("book");
  await card.getByRole("button", { name: "Write JSON" }).click();
  const box = card.getByRole("textbox", { name: "Your answer for book_table" });
  await box.fill("{day: Friday}");
  await approve(card);
  await card.getByText("This is no valid JSON.").waitFor();
  await box.fill('{"day": ["Friday"]}');
  await approve(card);
  await chat.says(/'day': \['Friday'\]/);
}

export async function arguments_are_edited_by_the_schema({ page, url }) {
  const { chat, posts, answers, card } = await openForms({ page, url });
  await chat.askFor("ship");
  await card.getByRole("button", { name: "Edit" }).click();
  await assertAccessible(page, "the form");
  const field = (name) => card.getByRole("textbox", { name, exact: true });
  await field("item").fill("Coffee");
  await field("count").fill("12");
  await field("to").fill('{"street": "Side 2"}');
  await field("tags").fill("[1]");
  await approve(card);
  for (const problem of ["This must be at most 10.", "city: This is needed.", "1: This must be a text in quotes."]) {
    await card.getByText(problem).waitFor();
  }
  assert.equal(await field("count").getAttribute("aria-invalid"), "true");
  assert.equal(answers.length, 0);
  await assertAccessible(page, "the form with problems");
  await field("count").fill("3");
  await field("to").fill('{"street": "Side 2", "city": "Bonn"}');
  await field("tags").fill("[]");
  await card.getByRole("radiogroup", { name: "service" }).getByRole("radio", { name: "pallet" }).check();
  await card.getByRole("combobox", { name: "country" }).selectOption("JP");
  await card.getByRole("switch", { name: "express" }).press("Space");
  await field("weight").fill("0.25");
  await approve(card);
  await chat.says(/'item': 'Coffee', 'count': 3, 'express': True, 'service': 'pallet', 'country': 'JP', 'tags': \[\]/);
  await assertQuiet(page, posts, 1);
  const edited = (await audit(chat)).find((entry) => entry.edited)?.edited;
  assert.equal(edited.weight, 0.25);
  assert.deepEqual(edited.to, { street: "Side 2", city: "Bonn" });
  assert.ok(!("note" in edited), "what was not filled in was sent");
  await chat.call("ship_parcel").locator("summary").click();
  await chat.call("ship_parcel").getByLabel("Changed to").filter({ hasText: "Coffee" }).waitFor();
}

export async function unchanged_arguments_are_no_edit({ page, url }) {
  const { chat, posts, answers, card } = await openForms({ page, url });
  await chat.askFor("ship");
  await card.getByRole("button", { name: "Edit" }).click();
  await card.getByRole("textbox", { name: "item" }).fill("Coffee");
  await card.getByRole("textbox", { name: "item" }).fill("Tea");
  await approve(card);
  await chat.says(/'item': 'Tea'/);
  await assertQuiet(page, posts, 2);
  assert.equal(answers.length, 0);
  assert.ok((await audit(chat)).every((entry) => !("edited" in entry)));
}

export async function changes_can_be_undone({ page, url }) {
  const { chat, answers, card } = await openForms({ page, url });
  await chat.askFor("ship");
  await card.getByRole("button", { name: "Edit" }).click();
  await card.getByRole("textbox", { name: "item" }).fill("Coffee");
  await card.getByRole("button", { name: "Undo changes" }).click();
  await approve(card);
  await chat.says(/'item': 'Tea'/);
  assert.equal(answers.length, 0);
}

export async function refusal_of_the_server_is_beside_the_field({ page, url }) {
  const { chat, card } = await openForms({ page, url });
  await chat.askFor("ship");
  const message = "0.5 is not a multiple of 2";
  const error = { code: "unprocessable", message: "These arguments do not fit.", fields: [{ pointer: "/args/weight", message }] };
  await page.route("**/calls/*", (route) => route.fulfill({ status: 422, json: { error } }), { times: 1 });
  await card.getByRole("button", { name: "Edit" }).click();
  await card.getByRole("textbox", { name: "weight" }).fill("0.5");
  await approve(card);
  await card.locator(".form-row").filter({ hasText: "weight" }).getByText(message).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.value), "0.5");
  await approve(card);
  await chat.says(/'weight': 0.5/);
  return /status of 422/;
}

export async function answer_that_does_not_arrive_can_be_given_again({ page, url }) {
  const { chat, card } = await openForms({ page, url });
  await chat.askFor("book");
  await page.route("**/calls/*", (route) => route.abort("connectionrefused"), { times: 1 });
  await card.getByRole("radio", { name: "Friday" }).check();
  await approve(card);
  await card.getByText("The answer did not reach the server.").waitFor();
  await approve(card);
  await chat.says(/'day': 'Friday'/);
  return /ERR_CONNECTION_REFUSED/;
}

export async function approval_for_the_chat_is_not_asked_again({ page, url }) {
  const { chat, answers, card } = await openForms({ page, url });
  await chat.askFor("twice", 2);
  await card.getByRole("radio", { name: "This chat" }).check();
  await approve(card);
  await chat.says(/ping.*ping/);
  assert.equal(answers.length, 1);
  await chat.ask("ping");
  await chat.says(/ping/);
  assert.equal(await chat.cards.count(), 0);
}

export async function question_from_inside_can_only_be_answered_once({ page, url }) {
  const { chat, card } = await openForms({ page, url });
  await chat.askFor("book");
  assert.equal(await card.getByRole("radio", { name: "This chat" }).count(), 0);
}

export async function several_questions_in_any_order({ page, url }) {
  const { chat, posts, answers } = await openForms({ page, url });
  await chat.askFor("ship book twice", 4);
  const card = (name) => chat.cards.filter({ hasText: name });
  assert.match(await chat.cards.nth(2).innerText(), /1 of 2/);
  assert.match(await chat.cards.nth(3).innerText(), /2 of 2/);
  await chat.assertFits();
  await assertAccessible(page, "several questions");
  await card("2 of 2").getByRole("button", { name: "Deny" }).click();
  await chat.cards.nth(3).waitFor({ state: "detached" });
  assert.match(await chat.cards.nth(2).innerText(), /1 of 2/);
  await card("book_table").getByRole("radio", { name: "Saturday" }).check();
  await approve(card("book_table"));
  await chat.cards.nth(2).waitFor({ state: "detached" });
  await approve(card("1 of 2"));
  await chat.cards.nth(1).waitFor({ state: "detached" });
  await card("ship_parcel").getByRole("textbox").fill("too heavy");
  await card("ship_parcel").getByRole("button", { name: "Deny" }).click();
  await chat.says(/'day': 'Saturday'/);
  await assertQuiet(page, posts, 1);
  assert.equal(answers.length, 4);
  const states = async (tool) => (await calls(chat, tool)).map((part) => part.state);
  assert.deepEqual(await states("ping"), ["output-available", "output-denied"]);
  assert.deepEqual(await states("ship_parcel"), ["output-denied"]);
  assert.deepEqual(await states("book_table"), ["output-available"]);
}

export async function forms_by_keyboard_only({ page, url }) {
  const { chat, answers, card } = await openForms({ page, url });
  await chat.askFor("ship twice", 3);
  await card.getByRole("button", { name: "Edit" }).press("Enter");
  await card.getByRole("textbox", { name: "item" }).fill("Coffee");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  assert.equal(await chat.cards.count(), 3, "Enter in a field answered the question");
  await page.keyboard.type("1");
  await page.keyboard.press("Enter");
  await card.getByRole("button", { name: "Approve" }).focus();
  await page.keyboard.press("Enter");
  await chat.cards.nth(2).waitFor({ state: "detached" });
  await page.waitForFunction(() => document.activeElement.matches("form.approval"));
  assert.match(await page.evaluate(() => document.activeElement.innerText), /1 of 2/);
  await page.keyboard.press("Enter");
  assert.equal(await chat.cards.count(), 2, "an Enter too many answered the next question");
  assert.equal(answers.length, 1);
}

export async function calls_are_folded_to_one_line({ page, url }) {
  const { chat } = await openForms({ page, url });
  await chat.askFor("ship fail");
  await chat.approve();
  await chat.says(/Tea/);
  const shipped = chat.call("ship_parcel");
  assert.match(await shipped.innerText(), /^ship_parcel\s+Tea, 2, false, box, DE\s+done\s+\d+\.\d s$/);
  assert.ok(!(await shipped.getByLabel("Output").isVisible()));
  const { height } = await shipped.boundingBox();
  assert.ok(height < 60, `${height} is more than a line`);
  await shipped.locator("summary").press("Enter");
  await shipped.getByLabel("Output").filter({ hasText: "Ulm" }).waitFor();
  await shipped.getByLabel("Input").waitFor();
  assert.match(await chat.call("fail").locator("summary").innerText(), /The printer is on fire/);
  assert.equal(await chat.state("fail"), "failed");
  await assertAccessible(page, "folded and open calls");
}

export async function forms_fit_a_phone({ page, url }) {
  await page.setViewportSize({ width: 360, height: 740 });
  const { chat, card } = await openForms({ page, url });
  await chat.askFor("ship book twice", 4);
  await card.getByRole("button", { name: "Edit" }).click();
  await chat.assertFits();
  await assertAccessible(page, "forms on a phone");
}

/** Serves a chat whose only call was cut off while it ran. */
async function serveUnknown(page, retryable) {
  const errorText = "This call did not finish; its outcome is unknown.";
  const approval = { id: "a1", approved: true };
  const call = { type: "tool-ping", toolCallId: "c1", state: "output-error", input: { host: "db-1" }, errorText, approval };
  const messages = [
    { id: "m1", role: "user", parts: [{ type: "text", text: "ping" }] },
    { id: "m2", role: "assistant", parts: [{ type: "step-start" }, call] },
  ];
  await page.route(/\/api\/chats\/served/, (route) => route.fulfill({
    json: { id: "served", title: "served", active: null, pending: [], retryable, messages },
  }));
}

export async function unknown_outcome_may_be_run_again({ page, url }) {
  await serveUnknown(page, ["c1"]);
  const bodies = [];
  await page.route("**/calls/c1", (route) => {
    bodies.push(route.request().postDataJSON());
    return route.fulfill({ status: 202, json: { state: "answered" } });
  });
  const chat = await new ChatPage({ page, url }).open("#/c/served");
  await chat.call("ping").getByRole("button", { name: "Run again" }).click();
  assert.equal(await chat.state("ping"), "outcome unknown");
  assert.deepEqual(bodies, [{ approved: true, approvalId: "a1" }]);
  await assertAccessible(page, "an unknown outcome");
}

export async function unknown_outcome_is_not_run_again_unasked({ page, url }) {
  await serveUnknown(page, []);
  const chat = await new ChatPage({ page, url }).open("#/c/served");
  assert.equal(await chat.state("ping"), "outcome unknown");
  await chat.call("ping").locator("summary").click();
  await chat.call("ping").getByLabel("Input").waitFor();
  assert.equal(await chat.call("ping").getByRole("button").count(), 0);
}
