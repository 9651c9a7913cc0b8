import { type ChatMode, chatOptions, resilientWebSocket, type SocketState } from "adkwire";
import type { ChatTransport, UIMessage } from "ai";
import { version } from "ai/package.json";
import { authorizedFetch } from "./authorized-fetch";
import type { Connection } from "./connection";
import { newsIn } from "./news-in";
import { token } from "./token";

/** Whoever says what it is also hears that an answer was interrupted. */
const CLIENT = `ai/${version}`;

export interface TransportOwner {
  /** How the next message leaves. */
  mode: () => ChatMode;
  /** Something of this page is about to leave. */
  onSend: () => void;
  onConnection: (connection: Connection) => void;
}

/** The chat's transport: whichever way the person has chosen, and may choose anew at any time. */
export interface Transport extends ChatTransport<UIMessage> {
  /** Goes away without stopping what runs. */
  close: () => void;
}

type Route = ReturnType<typeof chatOptions>["transport"];

function bodyOf(news: UIMessage[]): { message: UIMessage | undefined } | { messages: UIMessage[] } {
  return news.length > 1 ? { messages: news } : { message: news[0] };
}

function overHttp(chatId: string, mode: "sse" | "gemini", { onConnection }: TransportOwner): Route {
  return chatOptions({
    mode, chatId, url: new URL(".", location.href).href,
    transport: {
      fetch: authorizedFetch,
      client: CLIENT,
      // Who leaves the page does not stop the answer; the button asks the server to.
      stopOnAbort: false,
      prepareSendMessagesRequest: ({ id, messages, trigger, messageId }) =>
        ({ body: { id, ...bodyOf(newsIn(messages)), trigger, messageId } }),
      onState: ({ status, attempt }) => onConnection(status === "reconnecting" ? { state: status, attempt } : { state: status }),
    },
  }).transport;
}

/** A socket that comes back has resumed what was open on it. */
function socketConnection(onConnection: (connection: Connection) => void): (state: SocketState, now: Away) => void {
  let away = false;
  return (state, { attempt, requests }) => {
    if (state === "connecting") onConnection({ state });
    else if (state === "reconnecting") onConnection({ state, attempt: Math.max(1, attempt) });
    else onConnection({ state: state === "open" && away && requests > 0 ? "resumed" : "connected" });
    away = state === "reconnecting";
  };
}

interface Away {
  attempt: number;
  requests: number;
}

function overSocket(chatId: string, { onConnection }: TransportOwner): Route {
  return chatOptions({
    mode: "websocket", chatId, url: new URL(".", location.href).href,
    transport: {
      webSocket: resilientWebSocket({ token: () => token.read() ?? "", onState: socketConnection(onConnection) }),
      body: { client: CLIENT },
      prepareSendMessagesRequest: ({ body, messages }) => ({ body, messages: newsIn(messages) }),
    },
  }).transport;
}

/** Makes the ways to talk when they are needed, and sends by the one that is chosen. */
export function createTransport(chatId: string, owner: TransportOwner): Transport {
  const routes = new Map<ChatMode, Route>();
  const route = (): Route => {
    const mode = owner.mode();
    const made = routes.get(mode) ?? (mode === "websocket" ? overSocket(chatId, owner) : overHttp(chatId, mode, owner));
    routes.set(mode, made);
    return made;
  };
  return {
    resumeStreamIsReplay: true,
    sendMessages: (options) => {
      owner.onSend();
      if (owner.mode() !== "websocket") owner.onConnection({ state: "connecting" });
      return route().sendMessages(options);
    },
    reconnectToStream: (options) => route().reconnectToStream(options),
    close: () => {
      for (const made of routes.values()) if ("close" in made) made.close();
    },
  };
}
