/** What this page reads of a row of `GET /api/chats`. */
export interface ChatSummary {
  id: string;
  title: string;
  active: boolean;
  pending: number;
}
