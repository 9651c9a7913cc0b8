import { type OnConnection, overHttp, type Transport } from "./over-http";
import { overSocket } from "./over-socket";
import type { PageMode } from "./page-mode";

interface TransportOwner {
  /** Return the mode of the next request. */
  mode: () => PageMode;
  /** Called before a message or an answer is sent. */
  onSend: () => void;
  onConnection: OnConnection;
}

/** Return the transport of a chat. Each request goes by the mode of the moment; a mode's transport is made on first use. */
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
