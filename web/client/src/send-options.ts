import type { UIMessage } from "ai";

/** What a chat asks a transport to send; the same in AI SDK 6 and 7. */
export interface SendOptions<M extends UIMessage> {
  trigger: "submit-message" | "regenerate-message";
  chatId: string;
  messageId: string | undefined;
  messages: M[];
  abortSignal: AbortSignal | undefined;
  headers?: Record<string, string> | Headers;
  body?: object;
  metadata?: unknown;
}
