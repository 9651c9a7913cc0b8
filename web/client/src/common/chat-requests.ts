import type { UIMessage } from "ai";

/** The options that a chat gives to `sendMessages` of its transport; the same in AI SDK 6 and 7. */
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

/** The options that a chat gives to `reconnectToStream` of its transport. Older releases of AI SDK 6 give no signal. */
export interface ReconnectOptions {
  chatId: string;
  abortSignal?: AbortSignal;
  headers?: Record<string, string> | Headers;
  body?: object;
  metadata?: unknown;
}

/** Return headers as an object, with names in lower case as the official transports write them. */
export function plainHeaders(headers: HeadersInit | undefined): Record<string, string> {
  return Object.fromEntries(new Headers(headers));
}
