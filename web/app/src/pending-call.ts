/** What this page reads of a call that waits, in `GET /api/chats/{id}`: for a person, or for a browser to run it. */
export interface PendingCall {
  toolCallId: string;
  tool: string;
  input: unknown;
  kind: "approval" | "client";
}
