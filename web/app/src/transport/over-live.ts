import { chatOptions, type LiveChatTransport, type LiveReady, type LiveState, type SocketNotice } from "adkwire";
import type { UIMessage } from "ai";
import { BASE, CLIENT, type OnConnection, type Transport } from "./over-http";
import type { StreamHealth } from "./stream-health";
import { token } from "./token";

/** What a page does about a live conversation. */
export interface LiveListener {
  onConnection: OnConnection;
  /** Called with what the agent does; null when there is no connection that would tell. */
  onState: (state: LiveState | null) => void;
  /** Called when the agent is interrupted, here or in another window. */
  onInterrupted: () => void;
  /** Called with errors that belong to no message. */
  onError: (error: Error) => void;
  onNotice: (notice: SocketNotice) => void;
}

/** The live transport of a chat. */
export interface LiveRoute extends Transport {
  /** For `attach` of the package. */
  readonly transport: LiveChatTransport;
  /** True while a connection is open. */
  isConnected: () => boolean;
  /** Interrupt the agent. A pending call goes on waiting. */
  interrupt: () => Promise<void>;
  /** End the conversation: pending calls are parked, and other modes can go on with them. */
  hangUp: () => void;
}

/** The reasons of a server that closes a socket because it is not needed. */
const RESTING = ["idle", "done", "taken over"];

/** Return the live transport of a chat. Its socket stays open: the server begins turns by itself. */
export function overLive(chatId: string, listener: LiveListener, health: StreamHealth): LiveRoute {
  const { onConnection, onState, onInterrupted, onError, onNotice } = listener;
  let ready: LiveReady | null = null;
  let away = false;
  const { transport } = chatOptions<UIMessage>({
    mode: "live", chatId, url: BASE,
    transport: {
      token: () => token.read() ?? "",
      client: CLIENT,
      latencyCallback: health.noteLatency,
      onConnect: (next) => {
        ready = next;
        onConnection({ state: away ? "resumed" : "connected" });
        away = false;
      },
      onDisconnect: ({ reason, final }) => {
        ready = null;
        onState(null);
        if (final || RESTING.includes(reason)) return onConnection({ state: "connected" });
        away = true;
        onConnection({ state: "reconnecting", attempt: 1 });
      },
      onState,
      onInterruptRequest: onInterrupted,
      onNotice,
      onError,
    },
  });
  const connecting = (): void => {
    if (!ready && !away) onConnection({ state: "connecting" });
  };
  const close = (disconnect: () => void): void => {
    away = false;
    disconnect();
    ready = null;
    onState(null);
  };
  return {
    transport,
    resumeStreamIsReplay: true,
    sendMessages: (options) => {
      connecting();
      return transport.sendMessages(options);
    },
    reconnectToStream: async (options) => {
      connecting();
      const stream = await transport.reconnectToStream(options);
      const run = ready?.run;
      // The turn that this page joins may have nothing but pending calls: it must be named to be read on.
      if (stream || !run || options.body) return stream;
      return transport.reconnectToStream({ ...options, body: { run } });
    },
    isConnected: () => ready !== null,
    interrupt: () => transport.interrupt(),
    hangUp: () => close(() => transport.close()),
    close: () => close(() => transport.disconnect()),
  };
}
