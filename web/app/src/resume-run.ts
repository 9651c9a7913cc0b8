import type { Chat } from "@ai-sdk/react";
import type { UIMessage } from "ai";
import { loadHistory } from "./load-history";

/** Reads what is being written. An answer that ended before we asked has no stream any more: history has it. */
export async function resumeRun(chat: Chat<UIMessage>): Promise<void> {
  await chat.resumeStream();
  if (chat.status !== "ready" || chat.lastMessage?.role === "assistant") return;
  const { messages } = await loadHistory(chat.id);
  // Whoever wrote something meanwhile has a newer chat than this.
  if (chat.status === "ready") chat.messages = messages;
}
