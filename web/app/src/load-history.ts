import { authorizedFetch } from "./authorized-fetch";
import type { ChatHistory } from "./chat-history";

/** The chat as the server knows it; a chat it does not know is an empty one. */
export async function loadHistory(id: string): Promise<ChatHistory> {
  const response = await authorizedFetch(`api/chats/${encodeURIComponent(id)}`);
  if (response.status === 404) return { messages: [], active: null };
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as ChatHistory;
}
