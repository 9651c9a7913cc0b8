import type { Chat } from "@ai-sdk/react";
import type { UIMessage } from "ai";
import { loadHistory } from "./load-history";
import { reconnect } from "./reconnect";

/** Follows the server if it no longer waits for an answer to a call: it expired, or was answered elsewhere. */
export async function catchUp(chat: Chat<UIMessage>, call: string): Promise<void> {
  const { pending } = await loadHistory(chat.id, 1);
  if (!pending.some(({ toolCallId }) => toolCallId === call)) await reconnect(chat);
}
