/** A call that the page is to run. */
export interface ClientToolCall {
  toolCallId: string;
  toolName: string;
  input: unknown;
}
