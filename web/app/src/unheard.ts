import type { Chat } from "@ai-sdk/react";
import type { UIMessage } from "ai";

/** What the person said last, if the server never heard it. */
export function unheard(chat: Chat<UIMessage>, history: UIMessage[]): UIMessage | undefined {
  const said = chat.messages.findLast((message) => message.role === "user");
  return history.some((message) => message.id === said?.id) ? undefined : said;
}
