// The server is killed under the page. Whoever plays these starts another one where the page expects it.
import assert from "node:assert/strict";
import { numbers, upTo } from "./chat-page.mjs";
import { BROKEN, FaultPage } from "./fault-page.mjs";

export async function killed_server_is_told_and_the_chat_goes_on({ page, url }) {
  const chat = await new FaultPage({ page, url }).open();
  await chat.write("count to 300");
  await chat.hears(20);
  process.kill(chat.server, "SIGKILL");
  await chat.connection.getByText(/^Reconnecting/).waitFor();
  await chat.alert.filter({ hasText: "The server stopped before this answer was finished" }).waitFor();
  const kept = numbers(await chat.answers.last().locator(".text").last().innerText());
  assert.ok(kept.length >= 20 && kept.length < 300, `kept ${kept.length}`);
  assert.deepEqual(kept, upTo(kept.length));
  await chat.ask("count to 5");
  assert.equal(await chat.alert.count(), 0);
  const shown = await chat.transcript();
  await page.reload();
  await chat.answers.nth(1).waitFor();
  await chat.idle();
  assert.deepEqual(await chat.transcript(), shown);
  return BROKEN;
}
