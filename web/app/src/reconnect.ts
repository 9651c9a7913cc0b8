import type { Chat } from "@ai-sdk/react";
import type { UIMessage } from "ai";
import { isBusy } from "./is-busy";
import { loadHistory } from "./load-history";
import { resumeRun } from "./resume-run";
import { unheard } from "./unheard";

/** Puts the chat where the server has it, and says again what the server never heard. */
export async function reconnect(chat: Chat<UIMessage>): Promise<void> {
  const { messages, active } = await loadHistory(chat.id);
  if (isBusy(chat.status)) return;
  const lost = unheard(chat, messages);
  chat.clearError();
  chat.messages = messages;
  if (active) await resumeRun(chat, active.run);
  else if (lost) await chat.sendMessage(lost);
}
