import type { UIMessage } from "ai";

/** What this page reads of `GET /api/chats/{id}`. */
export interface ChatHistory {
  messages: UIMessage[];
  active: { run: string } | null;
}
