// The page against a server with the policy that test_page.py writes.
import assert from "node:assert/strict";
import { ChatPage } from "./chat-page.mjs";
import { assertQuiet, calls, open, UserEvents } from "./gate-page.mjs";

export async function question_with_a_hint_expires({ page, url }) {
  const { chat, posts } = await open({ page, url });
  const card = await chat.askFor("pay 50 to Hanako");
  await card.getByText("Money leaves your account at once.").waitFor();
  assert.match(await card.getByRole("timer").innerText(), /^Expires in 0:[01]\d$/);
  await chat.says(/Nobody answered in time/);
  assert.equal(await chat.state("process_payment"), "failed");
  await chat.call("process_payment").getByText(/Nobody answered in time/).waitFor();
  await assertQuiet(page, posts, 1);
  assert.equal(await chat.answers.count(), 1);
}

export async function payment_that_the_policy_denies_is_not_asked({ page, url }) {
  const { chat, posts } = await open({ page, url });
  await chat.write("pay 5000 to Hanako");
  await chat.says(/not|Sorry/);
  assert.equal(await chat.cards.count(), 0);
  await assertQuiet(page, posts, 1);
  const [call] = await calls(chat, "process_payment");
  assert.ok(["output-error", "output-denied"].includes(call.state), call.state);
  await chat.call("process_payment").getByText("Large payments are made at the bank.").waitFor();
}

export async function late_answer_is_told_so({ page, url }) {
  const { chat } = await open({ page, url });
  for (const news of ["**/api/events", "**/api/chats/*?limit=1"]) {
    await page.route(news, (route) => route.abort("connectionrefused"));
  }
  await page.reload();
  const events = await UserEvents.open(url);
  await chat.askFor("pay 50 to Hanako");
  await events.hear("call-settled", chat.chatId);
  await chat.approve();
  await chat.call("process_payment").getByText(/Nobody answered in time/).waitFor();
  await chat.says(/Nobody answered in time/);
  assert.equal((await calls(chat, "process_payment"))[0].state, "output-error");
  return /ERR_CONNECTION_REFUSED/;
}
