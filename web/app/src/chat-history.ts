import type { UIMessage } from "ai";
import type { PendingCall } from "./pending-call";

/** What this page reads of `GET /api/chats/{id}`. */
export interface ChatHistory {
  messages: UIMessage[];
  active: { run: string } | null;
  pending: PendingCall[];
}
