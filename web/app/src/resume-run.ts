import type { Chat } from "@ai-sdk/react";
import { NotRecoveredError } from "adkwire";
import type { UIMessage } from "ai";
import { loadHistory } from "./load-history";

/** Reads the message of the run that the history named as active. When its stream is no longer kept, the history has the message. */
export async function resumeRun(chat: Chat<UIMessage>, run: string): Promise<void> {
  const before = chat.lastMessage;
  await chat.resumeStream({ body: { run } });
  const { error } = chat;
  // A message that broke off is shown with its error.
  if (!(error instanceof NotRecoveredError) || chat.lastMessage?.id !== before?.id) return;
  const { messages } = await loadHistory(chat.id);
  if (chat.error !== error) return;
  chat.clearError();
  chat.messages = messages;
}
