import type { UIMessage } from "ai";
import type { LiveChatTransportOptions } from "./live/live-chat-transport-options.js";
import { LiveChatTransport } from "./live/live-chat-transport.js";
import { WebSocketChatTransport, type WebSocketChatTransportOptions } from "./socket/web-socket-chat-transport.js";
import type { ResumableSseOptions } from "./sse/resumable-sse-options.js";
import { ResumableSseTransport } from "./sse/resumable-sse-transport.js";
import type { ClientToolRunner } from "./tools/client-tools.js";
import type { Message } from "./tools/message.js";
import { sendAutomaticallyWhenSettled } from "./tools/send-automatically-when-settled.js";

/**
 * How a page reaches its agent: by HTTP, by a socket, or live with voice. `gemini` reaches the model without the agent.
 */
export type ChatMode = "sse" | "websocket" | "live" | "gemini";

/** The options of all modes. */
interface CommonOptions<M extends UIMessage> {
  /** The address of the server: `https://chat.example.com`, also with a path. The server of this page by default. */
  url?: string;
  chatId: string;
  /** The chat's history, as `GET /api/chats/{id}` returns it. */
  messages?: M[];
  /** The `active` of the history: the run that was active when it was loaded. It may end before the page resumes it. */
  active?: { run: string } | null | undefined;
  /** The runner that `clientTools` has returned. */
  tools?: Pick<ClientToolRunner, "onToolCall"> & Partial<Pick<ClientToolRunner, "runs">>;
  /** True to resume a run that is active when the page loads; true by default. */
  resume?: boolean;
}

/** The options of `chatOptions`. `transport` holds more options for the transport of the mode. */
export type ChatOptionsInput<M extends UIMessage = UIMessage> = CommonOptions<M> &
  (
    | { mode: "sse" | "gemini"; transport?: Omit<ResumableSseOptions<M>, "api" | "resumeApi" | "activeRun"> }
    | { mode: "websocket"; transport?: Omit<WebSocketChatTransportOptions<M>, "url" | "activeRun"> }
    | { mode: "live"; transport?: Omit<LiveChatTransportOptions, "url" | "chat" | "activeRun"> }
  );

type AnyTransport<M extends UIMessage> = ResumableSseTransport<M> | WebSocketChatTransport<M> | LiveChatTransport<M>;

/** The result of `chatOptions`. */
export interface ChatOptionsResult<M extends UIMessage = UIMessage, T extends AnyTransport<M> = AnyTransport<M>> {
  /** The options for `useChat`, to which the page may add others. */
  useChatOptions: {
    id: string;
    messages: M[];
    transport: T;
    resume: boolean;
    sendAutomaticallyWhen?: (state: { messages: readonly Message[] }) => boolean;
    onToolCall?: ClientToolRunner["onToolCall"];
  };
  /** The transport that is among them, to be closed when the page no longer needs it. */
  transport: T;
}

const MODES: ReadonlySet<ChatMode> = new Set<ChatMode>(["sse", "websocket", "live", "gemini"]);

type LiveInput<M extends UIMessage> = Extract<ChatOptionsInput<M>, { mode: "live" }>;

/**
 * Return the options that `useChat` needs for a chat with an adkwire server. In `live` the chat also has to be
 * attached.
 */
export function chatOptions<M extends UIMessage = UIMessage>(
  options: LiveInput<M>,
): ChatOptionsResult<M, LiveChatTransport<M>>;
export function chatOptions<M extends UIMessage = UIMessage>(options: ChatOptionsInput<M>): ChatOptionsResult<M>;
export function chatOptions<M extends UIMessage = UIMessage>(options: ChatOptionsInput<M>): ChatOptionsResult<M> {
  const { mode, chatId: id, messages = [], resume = true, tools } = options;
  const transport = transportOf(options);
  const useChatOptions = {
    id, messages, transport, resume,
    // Without the agent there are no tools, and so no calls to answer.
    ...(mode !== "gemini" && { sendAutomaticallyWhen: sendAutomaticallyWhenSettled }),
    ...(mode !== "gemini" && tools && { onToolCall: tools.onToolCall }),
  };
  return { useChatOptions, transport };
}

/** Keep calls that a handler in `tools` runs from `onToolCallRequest`: they get their answer from it. */
function withoutHandled<M extends UIMessage>(
  { tools, transport }: LiveInput<M>,
): Pick<LiveChatTransportOptions, "onToolCallRequest"> {
  const callback = transport?.onToolCallRequest;
  if (!callback) return {};
  return {
    onToolCallRequest: (request) => {
      if (request.kind !== "output" || !tools?.runs?.(request.toolName)) callback(request);
    },
  };
}

function transportOf<M extends UIMessage>(options: ChatOptionsInput<M>): ChatOptionsResult<M>["transport"] {
  if (!MODES.has(options.mode)) {
    throw new TypeError(`mode is "sse", "websocket", "live" or "gemini", not ${JSON.stringify(options.mode)}.`);
  }
  // A server may be given as http or ws, https or wss: they mean the same.
  const server = (options.url ?? "").replace(/\/+$/, "").replace(/^ws(?=s?:)/i, "http");
  const api = `${server}/api/chat`;
  const activeRun = options.active?.run;
  if (options.mode === "websocket") {
    const own = { activeRun, url: `${api}/ws`.replace(/^http(?=s?:)/i, "ws") };
    return new WebSocketChatTransport({ ...options.transport, ...own });
  }
  if (options.mode === "live") {
    const own = { activeRun, url: `${server}/api/live`, chat: options.chatId };
    return new LiveChatTransport({ ...options.transport, ...withoutHandled(options), ...own });
  }
  if (options.mode === "gemini") {
    return new ResumableSseTransport({ ...options.transport, activeRun, api: `${server}/api/gemini`, resumeApi: api });
  }
  return new ResumableSseTransport({ ...options.transport, activeRun, api });
}
