import { type DynamicToolUIPart, isToolUIPart, type ToolUIPart, type UIMessage } from "ai";

/** A tool call in a message, of a tool known by type or not. */
export type ToolPart = ToolUIPart | DynamicToolUIPart;

/** The calls that an answer is still about: those after its last step began. */
export function lastStepCalls(message: UIMessage | undefined): ToolPart[] {
  if (message?.role !== "assistant") return [];
  const start = message.parts.findLastIndex((part) => part.type === "step-start");
  return message.parts.slice(start + 1).filter(isToolUIPart);
}
