/** The fields that are read of a tool call in a message. The parts of AI SDK 6 and 7 both fit. */
export interface ToolPart {
  /** `tool-<name>`, or `dynamic-tool` with the name in `toolName`. */
  type: string;
  toolName?: string;
  toolCallId: string;
  state: string;
  input?: unknown;
  preliminary?: boolean;
  providerExecuted?: boolean;
  approval?: { id?: string; approved?: boolean };
}

/** A call that the page has to run. */
export interface ClientToolCall {
  toolCallId: string;
  toolName: string;
  input: unknown;
}

/** Return true for a part that is a tool call. */
export function isToolPart(part: { type: string }): part is ToolPart {
  return part.type === "dynamic-tool" || part.type.startsWith("tool-");
}

/**
 * Return true for a call that waits for the page to run it. Only in a message that is complete: others may still
 * change.
 */
export function isOffered(part: ToolPart): boolean {
  return part.state === "input-available" && !part.providerExecuted;
}

/** Return the call that a part shows. */
export function callOf({ type, toolName, toolCallId, input }: ToolPart): ClientToolCall {
  return { toolCallId, toolName: toolName ?? type.slice("tool-".length), input };
}

/**
 * Return a key for a call of a message. A call's id alone is not unique: some models number their calls anew in each
 * turn.
 */
export function callKey(messageId: string, toolCallId: string): string {
  return JSON.stringify([messageId, toolCallId]);
}
