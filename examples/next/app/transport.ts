import { WebSocketChatTransport } from "ai";

/**
 * One socket for all chats, forwarded by the rewrite in `next.config.ts`; `next dev` and `next start` do that. Where
 * Next.js is hosted without sockets, name adkwire's own address here: `wss://adkwire.example.com/api/chat/ws`.
 */
export const transport = new WebSocketChatTransport({
  url: "/api/chat/ws",
  // adkwire has the history: the last message is enough.
  prepareSendMessagesRequest: ({ messages }) => ({ messages: messages.slice(-1) }),
});
