import type { Chat } from "@ai-sdk/react";
import type { UIMessage } from "ai";
import { request } from "../transport/request";

/** A call in `GET /api/chats/{id}` that waits for a person (`approval`) or for a browser to run it (`client`). */
export interface PendingCall {
  toolCallId: string;
  tool: string;
  input: unknown;
  kind: "approval" | "client";
}

/** The fields of `GET /api/chats/{id}` that this page reads. */
export interface ChatHistory {
  messages: UIMessage[];
  active: { run: string } | null;
  pending: PendingCall[];
}

/** Load a chat, or its newest `limit` messages. An unknown chat is an empty one. */
export async function loadHistory(id: string, limit?: number): Promise<ChatHistory> {
  const query = limit === undefined ? "" : `?limit=${limit}`;
  const response = await request(`chats/${encodeURIComponent(id)}${query}`, { accept: 404 });
  if (response.status === 404) return { messages: [], active: null, pending: [] };
  return (await response.json()) as ChatHistory;
}

/** Return the user's last message if the server's history does not have it. */
export function undelivered(chat: Chat<UIMessage>, history: UIMessage[]): UIMessage | undefined {
  const sent = chat.messages.findLast((message) => message.role === "user");
  return history.some((message) => message.id === sent?.id) ? undefined : sent;
}
