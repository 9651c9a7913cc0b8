import { type OnConnection, overHttp, type Transport } from "./over-http";
import { overSocket } from "./over-socket";
import type { PageMode } from "./page-mode";

interface TransportOwner {
  /** How the next message leaves. */
  mode: () => PageMode;
  /** Something of this page is about to leave. */
  onSend: () => void;
  onConnection: OnConnection;
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
