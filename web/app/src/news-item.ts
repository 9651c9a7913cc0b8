/** What this page reads of an event of `GET /api/events`. */
export interface NewsItem {
  type: "run-started" | "run-ended" | "call-asked" | "call-settled" | "chat-updated";
  chat: string;
  run?: string;
  toolCallId?: string;
}
