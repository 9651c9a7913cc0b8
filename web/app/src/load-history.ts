import type { ChatHistory } from "./chat-history";
import { request } from "./request";

/** The chat as the server knows it; a chat it does not know is an empty one. */
export async function loadHistory(id: string): Promise<ChatHistory> {
  const response = await request(`chats/${encodeURIComponent(id)}`, { accept: 404 });
  if (response.status === 404) return { messages: [], active: null };
  return (await response.json()) as ChatHistory;
}
