import type { UIMessage } from "ai";
import type { ClientToolRunner } from "./client-tool-runner.js";
import type { LiveChatTransport } from "./live-chat-transport.js";
import type { Message } from "./message.js";
import type { ResumableSseTransport } from "./resumable-sse-transport.js";
import type { WebSocketChatTransport } from "./web-socket-chat-transport.js";

type AnyTransport<M extends UIMessage> = ResumableSseTransport<M> | WebSocketChatTransport<M> | LiveChatTransport<M>;

/** What `chatOptions` returns. */
export interface ChatOptionsResult<M extends UIMessage = UIMessage, T extends AnyTransport<M> = AnyTransport<M>> {
  /** For `useChat`, with whatever else the page wants to add. */
  useChatOptions: {
    id: string;
    messages: M[];
    transport: T;
    resume: boolean;
    sendAutomaticallyWhen?: (state: { messages: readonly Message[] }) => boolean;
    onToolCall?: ClientToolRunner["onToolCall"];
  };
  /** The same transport, to close it when the page is done with it. */
  transport: T;
}
