import { isToolUIPart, type UIMessage } from "ai";
import type { ToolPart } from "./tool-part";

/** The calls that an answer is still about: those after its last step began. */
export function lastStepCalls(message: UIMessage | undefined): ToolPart[] {
  if (message?.role !== "assistant") return [];
  const start = message.parts.findLastIndex((part) => part.type === "step-start");
  return message.parts.slice(start + 1).filter(isToolUIPart);
}
