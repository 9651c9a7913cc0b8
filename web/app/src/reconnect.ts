import type { Chat } from "@ai-sdk/react";
import type { UIMessage } from "ai";
import { followRun } from "./follow-run";
import { isBusy } from "./is-busy";
import { loadHistory } from "./load-history";

/** Puts the chat where the server has it, and says again what the server never heard. */
export async function reconnect(chat: Chat<UIMessage>): Promise<void> {
  const known = await loadHistory(chat.id);
  if (isBusy(chat.status)) return;
  const asked = chat.messages.findLast((message) => message.role === "user");
  chat.clearError();
  chat.messages = known.messages;
  if (known.active) await followRun(chat);
  else if (asked && !known.messages.some((message) => message.id === asked.id)) await chat.sendMessage(asked);
}
