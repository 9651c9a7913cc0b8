// What happens before and after a server is started anew.
import assert from "node:assert/strict";
import { ChatPage } from "./chat-page.mjs";

export async function question_is_left_open({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.askFor("pay 50 to Hanako");
}

export async function question_left_open_is_answered({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.list.getByRole("link").filter({ hasText: "waiting for you" }).click();
  await chat.cards.waitFor();
  await chat.approve();
  await chat.says(/50.*Hanako/);
  assert.equal(await chat.state("process_payment"), "done");
  assert.deepEqual((await chat.history()).messages.map((message) => message.role), ["user", "assistant"]);
  await chat.list.getByRole("link").filter({ hasText: "waiting for you" }).waitFor({ state: "detached" });
}
