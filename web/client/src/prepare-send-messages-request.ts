import type { UIMessage } from "ai";

interface Prepared {
  body: object;
  headers?: HeadersInit;
  credentials?: RequestCredentials;
  api?: string;
}

/** Makes the request of a message, as in `DefaultChatTransport`. */
export type PrepareSendMessagesRequest<M extends UIMessage> = (options: {
  id: string;
  messages: M[];
  trigger: "submit-message" | "regenerate-message";
  messageId: string | undefined;
  requestMetadata: unknown;
  body: Record<string, unknown> | undefined;
  headers: HeadersInit | undefined;
  credentials: RequestCredentials | undefined;
  api: string;
}) => Prepared | PromiseLike<Prepared>;
