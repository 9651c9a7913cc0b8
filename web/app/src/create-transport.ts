import { chatOptions, resilientWebSocket, type SocketState, type SocketStateDetail } from "adkwire";
import type { ChatTransport, UIMessage } from "ai";
import { version } from "ai/package.json";
import type { Connection } from "./connection";
import { fetchInTurns } from "./fetch-in-turns";
import { newsIn } from "./news-in";
import type { PageMode } from "./page-mode";
import { token } from "./token";
import { unlessCrowded } from "./unless-crowded";

/** Whoever says what it is also hears that an answer was interrupted. */
const CLIENT = `ai/${version}`;
const BASE = new URL(".", location.href).href;

/** The server's word for a person who has as many sockets as it allows. */
const CROWDED = /too many sockets/;

export interface TransportOwner {
  /** How the next message leaves. */
  mode: () => PageMode;
  /** Something of this page is about to leave. */
  onSend: () => void;
  onConnection: Tell;
}

/** The chat's transport: whichever way the person has chosen, and may choose anew at any time. */
export interface Transport extends ChatTransport<UIMessage> {
  /** Goes away without stopping what runs. */
  close: () => void;
}

type Tell = (connection: Connection) => void;

function bodyOf(news: UIMessage[]): { message: UIMessage | undefined } | { messages: UIMessage[] } {
  return news.length > 1 ? { messages: news } : { message: news[0] };
}

function overHttp(chatId: string, mode: "sse" | "gemini", onConnection: Tell): Transport {
  const { transport } = chatOptions({
    mode, chatId, url: BASE,
    transport: {
      fetch: fetchInTurns(`${BASE}api/chat/${encodeURIComponent(chatId)}/stream`),
      client: CLIENT,
      // Who leaves the page does not stop the answer; the button asks the server to.
      stopOnAbort: false,
      prepareSendMessagesRequest: ({ id, messages, trigger, messageId }) =>
        ({ body: { id, ...bodyOf(newsIn(messages)), trigger, messageId } }),
      onState: ({ status, attempt }) => onConnection(status === "reconnecting" ? { state: status, attempt } : { state: status }),
    },
  });
  return {
    resumeStreamIsReplay: true,
    sendMessages: (options) => {
      onConnection({ state: "connecting" });
      return transport.sendMessages(options);
    },
    reconnectToStream: (options) => transport.reconnectToStream(options),
    close: () => undefined,
  };
}

/** A socket that comes back has resumed what was open on it. */
function socketConnection(onConnection: Tell, onCrowded: () => void): (state: SocketState, now: SocketStateDetail) => void {
  let away = false;
  return (state, { attempt, requests, reason = "" }) => {
    const crowded = CROWDED.test(reason);
    if (state === "connecting") onConnection({ state });
    else if (state === "reconnecting") onConnection({ state, attempt: Math.max(1, attempt), crowded });
    else onConnection({ state: state === "open" && away && requests > 0 ? "resumed" : "connected" });
    away = state === "reconnecting";
    if (crowded) onCrowded();
  };
}

/** By a socket; by HTTP what begins when the server has no socket left for this person. */
function overSocket(chatId: string, onConnection: Tell): Transport {
  let onCrowded = (): void => undefined;
  const { transport } = chatOptions({
    mode: "websocket", chatId, url: BASE,
    transport: {
      webSocket: resilientWebSocket({
        token: () => token.read() ?? "",
        onState: socketConnection(onConnection, () => onCrowded()),
      }),
      body: { client: CLIENT },
      prepareSendMessagesRequest: ({ body, messages }) => ({ body, messages: newsIn(messages) }),
    },
  });
  const instead = overHttp(chatId, "sse", (connection) =>
    onConnection(connection.state === "reconnecting" ? connection : { state: "crowded" }));
  const crowded = (): Promise<void> => new Promise((resolve) => {
    onCrowded = resolve;
  });
  const close = (): void => "close" in transport ? transport.close() : undefined;
  return {
    resumeStreamIsReplay: true,
    sendMessages: async (options) => {
      const stream = await unlessCrowded(transport.sendMessages(options), crowded());
      if (stream) return stream;
      close();
      return instead.sendMessages(options);
    },
    reconnectToStream: async (options) => {
      const stream = await unlessCrowded(transport.reconnectToStream(options), crowded());
      if (stream !== undefined) return stream;
      close();
      return instead.reconnectToStream(options);
    },
    close,
  };
}

/** Makes the ways to talk when they are needed, and sends by the one that is chosen. */
export function createTransport(chatId: string, owner: TransportOwner): Transport {
  const routes = new Map<PageMode, Transport>();
  const route = (): Transport => {
    const mode = owner.mode();
    const made = routes.get(mode) ??
      (mode === "websocket" ? overSocket(chatId, owner.onConnection) : overHttp(chatId, mode, owner.onConnection));
    routes.set(mode, made);
    return made;
  };
  return {
    resumeStreamIsReplay: true,
    sendMessages: (options) => {
      owner.onSend();
      return route().sendMessages(options);
    },
    reconnectToStream: (options) => route().reconnectToStream(options),
    close: () => {
      for (const made of routes.values()) made.close();
    },
  };
}
