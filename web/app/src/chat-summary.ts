/** One row of `GET /api/chats`. */
export interface ChatSummary {
  id: string;
  title: string | null;
  updatedAt: string | number;
  active: boolean | object | null;
  pending: boolean | number | readonly unknown[];
}
