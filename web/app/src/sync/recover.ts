import type { Chat } from "@ai-sdk/react";
import { HttpError, NotRecoveredError } from "adkwire";
import type { UIMessage } from "ai";
import { request } from "../transport/request";
import { lastStepCalls, type ToolPart } from "../transport/tool-part";
import { isBusy } from "./chat-status";
import { loadHistory, undelivered } from "./history";

/** Client errors worth a retry: timeout, busy chat, too early, too many requests. */
const TEMPORARY = [408, 409, 425, 429];

/** Return whether the server refused a request and would refuse it again. */
export function isRefused(error: Error): boolean {
  return error instanceof HttpError && error.status >= 400 && error.status < 500 && !TEMPORARY.includes(error.status);
}

const CONFLICT = 409;
/** The server's words for a chat that is live in another window. It has no code of its own. */
const LIVE = /live conversation/;

/** Return whether the server refused a request because the chat is live in another window. */
export function isLiveElsewhere(error: Error): boolean {
  return isBusyElsewhere(error) && LIVE.test(error.message);
}

/** Return whether the server refused a request because the chat is busy with something else. */
export function isBusyElsewhere(error: Error): boolean {
  return error instanceof HttpError && error.status === CONFLICT;
}

/** Return the answer that was given to a call in this tab, as the calls route takes it; null when there is none. */
function answerTo(part: ToolPart): object | null {
  switch (part.state) {
    case "approval-responded":
      return { approved: part.approval.approved, ...(part.approval.reason ? { reason: part.approval.reason } : {}) };
    case "output-available":
      return { output: part.output };
    case "output-error":
      return { error: part.errorText };
    default:
      return null;
  }
}

/** Send the answers of the last step one by one. A call that is settled already keeps its first answer. */
export async function answerByRoute(chat: Chat<UIMessage>): Promise<void> {
  const { pending } = await loadHistory(chat.id, 1);
  const waiting = new Set(pending.map(({ toolCallId }) => toolCallId));
  for (const part of lastStepCalls(chat.lastMessage)) {
    const json = answerTo(part);
    if (!json || !waiting.has(part.toolCallId)) continue;
    const path = `chat/${encodeURIComponent(chat.id)}/calls/${encodeURIComponent(part.toolCallId)}`;
    await request(path, { method: "POST", json, accept: CONFLICT });
  }
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
