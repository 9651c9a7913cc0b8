import type { UIMessage } from "ai";
import type { ChatOptionsInput } from "./chat-options-input.js";
import type { ChatOptionsResult } from "./chat-options-result.js";
import { ResumableSseTransport } from "./resumable-sse-transport.js";
import { sendAutomaticallyWhenSettled } from "./send-automatically-when-settled.js";
import { WebSocketChatTransport } from "./web-socket-chat-transport.js";

/** All that `useChat` needs for a chat with an adkwire server, in every mode. */
export function chatOptions<M extends UIMessage = UIMessage>(options: ChatOptionsInput<M>): ChatOptionsResult<M> {
  const { mode, chatId: id, messages = [], resume = true, tools } = options;
  const transport = transportOf(options);
  const useChatOptions = {
    id, messages, transport, resume,
    // The model itself calls no tools: there is nothing to settle.
    ...(mode !== "gemini" && { sendAutomaticallyWhen: sendAutomaticallyWhenSettled }),
    ...(mode !== "gemini" && tools && { onToolCall: tools.onToolCall }),
  };
  return { useChatOptions, transport };
}

function transportOf<M extends UIMessage>(options: ChatOptionsInput<M>): ChatOptionsResult<M>["transport"] {
  // The same server, whichever way it is named: http and ws, https and wss.
  const server = (options.url ?? "").replace(/\/+$/, "").replace(/^ws(?=s?:)/i, "http");
  const api = `${server}/api/chat`;
  if (options.mode === "websocket") {
    return new WebSocketChatTransport({ ...options.transport, url: `${api}/ws`.replace(/^http(?=s?:)/i, "ws") });
  }
  if (options.mode === "gemini") {
    return new ResumableSseTransport({ ...options.transport, api: `${server}/api/gemini`, resumeApi: api });
  }
  return new ResumableSseTransport({ ...options.transport, api });
}
