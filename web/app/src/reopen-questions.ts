import type { Chat } from "@ai-sdk/react";
import type { UIMessage } from "ai";
import { isBusy } from "./is-busy";
import { loadHistory } from "./load-history";

/** After answers that did not arrive: shows again what the server still waits for. */
export async function reopenQuestions(chat: Chat<UIMessage>): Promise<void> {
  const { messages, active } = await loadHistory(chat.id);
  // An answer under way is followed, not replaced by a history that does not have it yet.
  if (!active && !isBusy(chat.status)) chat.messages = messages;
}
