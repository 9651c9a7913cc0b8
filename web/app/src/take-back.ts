import type { Chat } from "@ai-sdk/react";
import type { UIMessage } from "ai";
import { isBusy } from "./is-busy";
import { loadHistory } from "./load-history";
import { unheard } from "./unheard";

/** Puts the chat where the server has it after a refusal. Returns the person's message if the server did not keep it. */
export async function takeBack(chat: Chat<UIMessage>): Promise<UIMessage | null> {
  const { messages } = await loadHistory(chat.id);
  // Whoever wrote something meanwhile has a newer chat than this.
  if (isBusy(chat.status)) return null;
  const lost = unheard(chat, messages);
  chat.messages = messages;
  return lost ?? null;
}
