import { type DynamicToolUIPart, isToolUIPart, type ToolUIPart, type UIMessage } from "ai";

/** A tool call in a message. */
export type ToolPart = ToolUIPart | DynamicToolUIPart;

/** Return the calls of the last step of an answer: only these can still be open. */
export function lastStepCalls(message: UIMessage | undefined): ToolPart[] {
  if (message?.role !== "assistant") return [];
  const start = message.parts.findLastIndex((part) => part.type === "step-start");
  return message.parts.slice(start + 1).filter(isToolUIPart);
}
