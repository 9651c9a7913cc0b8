import type { ChatHistory } from "./chat-history";
import { request } from "./request";

/** The chat as the server knows it, or its newest messages; a chat it does not know is an empty one. */
export async function loadHistory(id: string, limit?: number): Promise<ChatHistory> {
  const query = limit === undefined ? "" : `?limit=${limit}`;
  const response = await request(`chats/${encodeURIComponent(id)}${query}`, { accept: 404 });
  if (response.status === 404) return { messages: [], active: null, pending: [] };
  return (await response.json()) as ChatHistory;
}
