// ai 7.0.169 whose chats talk over its own stock WebSocket transport, for every driver that knows only the default one.
import { WebSocketChatTransport } from "ai-7-0-169";
import { WebSocket } from "ws";

export * from "ai-7-0-169";

/** Takes what the default transport takes, as far as it makes sense on a socket. */
export class DefaultChatTransport extends WebSocketChatTransport {
  constructor({ api }) {
    super({ url: `${api.replace(/^http/, "ws")}/ws`, webSocket: WebSocket });
  }
}
