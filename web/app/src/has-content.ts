import type { UIMessage } from "ai";

/** Whether a message shows anything at all. */
export function hasContent(message: UIMessage): boolean {
  return message.parts.some((part) => (part.type === "text" ? part.text !== "" : part.type !== "step-start"));
}
