import type { UIMessage } from "ai";
import type { ChatMode } from "./chat-mode.js";
import type { ChatOptionsInput } from "./chat-options-input.js";
import type { ChatOptionsResult } from "./chat-options-result.js";
import { LiveChatTransport } from "./live-chat-transport.js";
import type { LiveChatTransportOptions } from "./live-chat-transport-options.js";
import { ResumableSseTransport } from "./resumable-sse-transport.js";
import { sendAutomaticallyWhenSettled } from "./send-automatically-when-settled.js";
import { WebSocketChatTransport } from "./web-socket-chat-transport.js";

const MODES: ReadonlySet<ChatMode> = new Set<ChatMode>(["sse", "websocket", "live", "gemini"]);

type LiveInput<M extends UIMessage> = Extract<ChatOptionsInput<M>, { mode: "live" }>;

/** All that `useChat` needs for a chat with an adkwire server, in every mode. In `live` the chat is also attached. */
export function chatOptions<M extends UIMessage = UIMessage>(options: LiveInput<M>): ChatOptionsResult<M, LiveChatTransport<M>>;
export function chatOptions<M extends UIMessage = UIMessage>(options: ChatOptionsInput<M>): ChatOptionsResult<M>;
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

/** What a handler of the page runs waits for nobody. */
function unheard<M extends UIMessage>({ tools, transport }: LiveInput<M>): Pick<LiveChatTransportOptions, "onToolCallRequest"> {
  const hear = transport?.onToolCallRequest;
  if (!hear) return {};
  return { onToolCallRequest: (request) => (request.kind === "output" && tools?.runs?.(request.toolName) ? undefined : hear(request)) };
}

function transportOf<M extends UIMessage>(options: ChatOptionsInput<M>): ChatOptionsResult<M>["transport"] {
  if (!MODES.has(options.mode)) throw new TypeError(`mode is "sse", "websocket", "live" or "gemini", not ${JSON.stringify(options.mode)}.`);
  // The same server, whichever way it is named: http and ws, https and wss.
  const server = (options.url ?? "").replace(/\/+$/, "").replace(/^ws(?=s?:)/i, "http");
  const api = `${server}/api/chat`;
  if (options.mode === "websocket") {
    return new WebSocketChatTransport({ ...options.transport, url: `${api}/ws`.replace(/^http(?=s?:)/i, "ws") });
  }
  if (options.mode === "live") {
    return new LiveChatTransport({ ...options.transport, ...unheard(options), url: `${server}/api/live`, chat: options.chatId });
  }
  if (options.mode === "gemini") {
    return new ResumableSseTransport({ ...options.transport, api: `${server}/api/gemini`, resumeApi: api });
  }
  return new ResumableSseTransport({ ...options.transport, api });
}
