/** What is read of a tool call in a message; the parts of AI SDK 6 and 7 both fit. */
export interface ToolPart {
  /** `tool-<name>`, or `dynamic-tool` with `toolName`. */
  type: string;
  toolName?: string;
  toolCallId: string;
  state: string;
  input?: unknown;
  preliminary?: boolean;
  providerExecuted?: boolean;
  approval?: { id?: string; approved?: boolean };
}
