import type { ClientToolCall } from "./client-tool-call.js";
import type { ToolPart } from "./tool-part.js";

/** The call that a part of a message shows. */
export function callOf({ type, toolName, toolCallId, input }: ToolPart): ClientToolCall {
  return { toolCallId, toolName: toolName ?? type.slice("tool-".length), input };
}
