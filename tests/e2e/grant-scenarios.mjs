// Standing answers, given in a chat and taken back in the settings. The page against the agent of form_agent.py.
import assert from "node:assert/strict";
import { ChatPage } from "./chat-page.mjs";

export async function approval_that_is_taken_back_is_asked_again({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.askFor("ping");
  await chat.cards.getByRole("radio", { name: "Always" }).check();
  await chat.approve();
  await chat.says(/alive/);
  await chat.ask("ping");
  assert.equal(await chat.cards.count(), 0, "it was asked again");
  await page.getByRole("button", { name: "Settings" }).click();
  const dialog = page.getByRole("dialog", { name: "Settings" });
  await dialog.getByRole("button", { name: "Show standing answers" }).click();
  await dialog.getByRole("button", { name: "Take back ping" }).click();
  await dialog.getByText("There are none: every question is asked.").waitFor();
  await page.keyboard.press("Escape");
  await chat.askFor("ping");
}
