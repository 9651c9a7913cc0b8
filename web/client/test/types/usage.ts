// Compiled against both majors of `ai`, never run: what a page writes has to fit the types of its own release.
import {
  attach, chatOptions, clientTools, HttpError, LiveChatTransport, NotConnected, NotRecoveredError, ResumableSseTransport,
  resilientWebSocket,
  sendAutomaticallyWhenSettled, type SocketCounters, type SocketNotice, WebSocketChatTransport,
} from "adkwire";
import type { AbstractChat, ChatInit, ChatTransport, UIMessage } from "ai";

type Metadata = { author?: string };
type Tools = { play: { input: { track: 0 | 1 }; output: { title: string } } };
type OwnMessage = UIMessage<Metadata, { state: { open: boolean } }, Tools>;

function hear({ code, text }: SocketNotice): void {
  console.log(code, text);
}

export function reconnectsOf(counters: SocketCounters): number {
  return counters.reconnects;
}

export const plain: ChatTransport<UIMessage> = new ResumableSseTransport();
export const own: ChatTransport<OwnMessage> = new ResumableSseTransport<OwnMessage>({
  api: "/api/chat",
  headers: async () => ({ authorization: "Bearer token" }),
  body: () => ({ more: 1 }),
  credentials: "include",
  client: "ai/7.0.169",
  fetch: globalThis.fetch,
  prepareSendMessagesRequest: ({ id, messages, trigger, messageId }) =>
    ({ body: { id, message: messages.at(-1)?.metadata?.author, trigger, messageId } }),
  onState: ({ status, attempt, delay = 0 }) => console.log(status === "reconnecting", attempt, delay),
  onNotRecovered: (error: NotRecoveredError) => console.log(error.run),
  stopOnAbort: false,
  backoff: { initial: 1, max: 2, attempts: 3 },
});
export const socket: ChatTransport<OwnMessage> = new WebSocketChatTransport<OwnMessage>({
  url: "/api/chat/ws",
  webSocket: resilientWebSocket({ token: "t", onNotice: hear, onError: (error) => console.log(error instanceof HttpError) }),
  onNotRecovered: ({ run }) => console.log(run),
});

const tools = clientTools({
  play: async ({ track }: { track: 0 | 1 }) => ({ title: `Track ${track}` }),
  clock: () => Date.now(),
  whatever: (input: unknown, { toolCallId }) => [input, toolCallId],
});

const { useChatOptions, transport } = chatOptions<OwnMessage>({
  mode: "sse", url: "https://chat.example.com", chatId: "c", messages: [], active: null, tools,
  transport: { onNotRecovered: ({ chatId }) => console.log(chatId) },
});
export const init: ChatInit<OwnMessage> = useChatOptions;
export const same: ChatTransport<OwnMessage> = transport;
export const hand: ChatInit<OwnMessage> = {
  sendAutomaticallyWhen: sendAutomaticallyWhenSettled,
  onToolCall: tools.onToolCall,
  onError: (error) => console.log(error instanceof HttpError ? error.retryAfter : error.message),
};

export function pick(chat: AbstractChat<OwnMessage>, other: AbstractChat<UIMessage>): void {
  tools.pickUp(chat);
  tools.pickUp(other);
}

export const live: ChatTransport<OwnMessage> = new LiveChatTransport<OwnMessage>({ url: "/api/live", chat: "c", activeRun: "run-1" });

export async function speak(chat: AbstractChat<OwnMessage>, other: AbstractChat<UIMessage>): Promise<void> {
  const { transport } = chatOptions<OwnMessage>({
    mode: "live", chatId: "c", transport: { onAudioChunk: ({ pcm, generation }) => console.log(pcm.length, generation) },
  });
  const same: AbstractChat<OwnMessage> = attach(chat, transport);
  attach(other, new LiveChatTransport({ url: "/api/live", chat: "c" }));
  await transport.startAudio();
  transport.sendAudioChunk(new Int16Array(320));
  await transport.stopAudio().catch((error: unknown) => console.log(error instanceof NotConnected, same.status));
}

export function everyMode(mode: "sse" | "websocket" | "live" | "gemini"): ChatInit<UIMessage> {
  return chatOptions({ mode, chatId: "c", active: { run: "run-1" } }).useChatOptions;
}

// @ts-expect-error: the options of a socket are others.
chatOptions({ mode: "websocket", chatId: "c", transport: { stopOnAbort: true } });
// @ts-expect-error: where a live socket is follows from the chat.
chatOptions({ mode: "live", chatId: "c", transport: { url: "/api/live" } });
// @ts-expect-error: a chat has an id.
chatOptions({ mode: "sse" });
