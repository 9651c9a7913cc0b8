import { chatOptions, resilientWebSocket, type SocketState, type SocketStateDetail } from "adkwire";
import type { UIMessageChunk } from "ai";
import { BASE, CLIENT, type OnConnection, overHttp, type Transport } from "./over-http";
import { token } from "./token";
import { unsentMessages } from "./unsent-messages";

/** The server's reason when it refuses another socket to a user. */
const CROWDED = /too many sockets/;

type Stream = ReadableStream<UIMessageChunk>;

/** Return the same stream as soon as its first chunk has arrived. */
async function begun(stream: Stream | null): Promise<Stream | null> {
  if (!stream) return null;
  const [first, whole] = stream.tee();
  const reader = first.getReader();
  await reader.read();
  void reader.cancel();
  return whole;
}

/** Return the stream, or undefined when the server refuses the socket before the first chunk. */
async function unlessCrowded<T extends Stream | null>(
  asked: Promise<T>, crowded: Promise<void>,
): Promise<T | undefined> {
  const started = asked.then(begun) as Promise<T>;
  return Promise.race([started, crowded.then(() => undefined)]);
}

/** Return a listener that reports the states of a socket. One that reconnects resumes its open requests. */
function socketConnection(onConnection: OnConnection, onCrowded: () => void): (state: SocketState, now: SocketStateDetail) => void {
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

/** Return the transport over a WebSocket. It falls back to HTTP when the server refuses another socket to this user. */
export function overSocket(
  chatId: string, onConnection: OnConnection, onLatency: (milliseconds: number) => void,
): Transport {
  let onCrowded = (): void => undefined;
  const { transport } = chatOptions({
    mode: "websocket", chatId, url: BASE,
    transport: {
      webSocket: resilientWebSocket({
        token: () => token.read() ?? "",
        onState: socketConnection(onConnection, () => onCrowded()),
        onLatency,
      }),
      body: { client: CLIENT },
      prepareSendMessagesRequest: ({ body, messages }) => ({ body, messages: unsentMessages(messages) }),
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
