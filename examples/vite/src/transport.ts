import { DefaultChatTransport, WebSocketChatTransport } from "ai";

const overHttp = new DefaultChatTransport({
  api: "/api/chat",
  // adkwire has the history: the last message is enough.
  prepareSendMessagesRequest: ({ id, messages, trigger, messageId }) => ({
    body: { id, trigger, messageId, message: messages.at(-1) },
  }),
  prepareReconnectToStreamRequest: ({ api, id, body }) => ({
    api: `${api}/${encodeURIComponent(id)}/stream?run=${encodeURIComponent(body?.run ?? "")}`,
  }),
});

const overWebSocket = new WebSocketChatTransport({
  url: "/api/chat/ws",
  prepareSendMessagesRequest: ({ messages }) => ({ messages: messages.slice(-1) }),
});

export const transport = new URLSearchParams(location.search).has("websocket") ? overWebSocket : overHttp;
