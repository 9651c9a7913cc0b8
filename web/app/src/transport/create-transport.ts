import type { ChatTransport, UIMessage, UIMessageChunk } from "ai";
import { type LiveListener, type LiveRoute, overLive } from "./over-live";
import { type OnConnection, overHttp, type Transport } from "./over-http";
import { overSocket } from "./over-socket";
import type { PageMode } from "./page-mode";
import type { StreamHealth } from "./stream-health";

interface TransportOwner {
  /** Return the mode of the next request. */
  mode: () => PageMode;
  /** Called before a message or an answer is sent. */
  onSend: () => void;
  /** Called before the chat reads a turn that the server has begun. */
  onTurn: () => void;
  onConnection: OnConnection;
  /** Called once, when the live transport is made. */
  onLive: (live: LiveRoute) => void;
  live: Omit<LiveListener, "onConnection">;
  health: StreamHealth;
}

type SendOptions = Parameters<ChatTransport<UIMessage>["sendMessages"]>[0];
type Stream = ReadableStream<UIMessageChunk>;

/** The transport of a chat in all modes. */
export interface ChatRoutes extends Transport {
  /** Send a message while the chat still reads an answer, which the server then ends. The chat sends it once more. */
  sendAhead: (messages: UIMessage[]) => Promise<void>;
  /** Return the live transport, if there has been a live mode. */
  live: () => LiveRoute | undefined;
  /** Close the socket of the text mode. */
  releaseSocket: () => void;
}

function isTurnOfServer({ body }: { body?: object | undefined }): boolean {
  return body !== undefined && "liveTurn" in body;
}

/** Return the transport of a chat. Each request goes by the mode of the moment; a mode's transport is made on first use. */
export function createTransport(chatId: string, owner: TransportOwner): ChatRoutes {
  const { health } = owner;
  const routes = new Map<PageMode, Transport>();
  const ahead = new Map<string, Stream>();
  let live: LiveRoute | undefined;
  const onConnection: OnConnection = (connection) => {
    if (connection.state === "reconnecting" && connection.attempt === 1) health.noteReconnect();
    owner.onConnection(connection);
  };
  const makeLive = (): LiveRoute => {
    live = overLive(chatId, { ...owner.live, onConnection }, health);
    owner.onLive(live);
    return live;
  };
  const make = (mode: PageMode): Transport => {
    if (mode === "live") return makeLive();
    return mode === "websocket" ? overSocket(chatId, onConnection, health.noteLatency) : overHttp(chatId, mode, onConnection);
  };
  const route = (): Transport => {
    const mode = owner.mode();
    const made = routes.get(mode) ?? make(mode);
    routes.set(mode, made);
    return made;
  };
  const send = async (options: SendOptions): Promise<Stream> => {
    if (isTurnOfServer(options)) owner.onTurn();
    else owner.onSend();
    return health.counting(await route().sendMessages(options));
  };
  return {
    resumeStreamIsReplay: true,
    sendMessages: async (options) => {
      const id = options.messages.at(-1)?.id ?? "";
      const sent = ahead.get(id);
      ahead.delete(id);
      return sent ?? send(options);
    },
    sendAhead: async (messages) => {
      const request = { chatId, messages, trigger: "submit-message", messageId: undefined, abortSignal: undefined } as const;
      ahead.set(messages.at(-1)?.id ?? "", await send(request));
    },
    reconnectToStream: async (options) => {
      if (isTurnOfServer(options)) owner.onTurn();
      const stream = await route().reconnectToStream(options);
      return stream && health.counting(stream);
    },
    live: () => live,
    releaseSocket: () => routes.get("websocket")?.close(),
    close: () => {
      for (const made of routes.values()) made.close();
    },
  };
}
