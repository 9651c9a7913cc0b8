import type { Chat } from "@ai-sdk/react";
import type { UIMessage } from "ai";
import { isSame } from "./is-same";
import { loadHistory } from "./load-history";

/** Whether the server has nothing that this chat does not show. */
export async function isUpToDate(chat: Chat<UIMessage>): Promise<boolean> {
  const { messages, active } = await loadHistory(chat.id, 1);
  const [newest, shown] = [messages.at(-1), chat.lastMessage];
  return !active && newest?.id === shown?.id && isSame(newest?.parts, shown?.parts);
}
