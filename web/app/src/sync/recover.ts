import type { Chat } from "@ai-sdk/react";
import { HttpError, NotRecoveredError } from "adkwire";
import type { UIMessage } from "ai";
import { isBusy } from "./chat-status";
import { loadHistory, undelivered } from "./history";

/** Client errors worth a retry: timeout, busy chat, too early, too many requests. */
const TEMPORARY = [408, 409, 425, 429];

/** Return whether the server refused a request and would refuse it again. */
export function isRefused(error: Error): boolean {
  return error instanceof HttpError && error.status >= 400 && error.status < 500 && !TEMPORARY.includes(error.status);
}

/** Read the stream of an active run. If its stream is no longer kept, load the message from the history. */
export async function resumeRun(chat: Chat<UIMessage>, run: string): Promise<void> {
  const before = chat.lastMessage;
  await chat.resumeStream({ body: { run } });
  const { error } = chat;
  // A message that was cut off in the middle is shown with its error.
  if (!(error instanceof NotRecoveredError) || chat.lastMessage?.id !== before?.id) return;
  const { messages } = await loadHistory(chat.id);
  if (chat.error !== error) return;
  chat.clearError();
  chat.messages = messages;
}

/** Replace the chat by the server's history, resume its run, and send an undelivered message again. */
export async function reconnect(chat: Chat<UIMessage>): Promise<void> {
  const { messages, active } = await loadHistory(chat.id);
  if (isBusy(chat.status)) return;
  const unsent = undelivered(chat, messages);
  chat.clearError();
  chat.messages = messages;
  if (active) await resumeRun(chat, active.run);
  else if (unsent) await chat.sendMessage(unsent);
}

/** Replace the chat by the server's history after a refusal. Return the user's message if it was not stored. */
export async function undoRefused(chat: Chat<UIMessage>): Promise<UIMessage | null> {
  const { messages } = await loadHistory(chat.id);
  // A message that was sent meanwhile is newer than this history.
  if (isBusy(chat.status)) return null;
  const unsent = undelivered(chat, messages);
  chat.messages = messages;
  return unsent ?? null;
}

/** Show the pending questions again after answers that did not reach the server. */
export async function reopenQuestions(chat: Chat<UIMessage>): Promise<void> {
  const { messages, active } = await loadHistory(chat.id);
  // The history does not have the answer of an active run yet.
  if (!active && !isBusy(chat.status)) chat.messages = messages;
}
