import { DefaultChatTransport } from "ai";

export const transport = new DefaultChatTransport({
  api: "/api/chat",
  // adkwire has the history: the last message is enough.
  prepareSendMessagesRequest: ({ id, messages, trigger, messageId }) => ({
    body: { id, trigger, messageId, message: messages.at(-1) },
  }),
  prepareReconnectToStreamRequest: ({ api, id, body }) => ({
    api: `${api}/${encodeURIComponent(id)}/stream?run=${encodeURIComponent(body?.run ?? "")}`,
  }),
});
