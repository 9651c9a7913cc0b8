import type { ToolPart } from "./tool-part.js";

/** Whether a part is a tool call. */
export function isToolPart(part: { type: string }): part is ToolPart {
  return part.type === "dynamic-tool" || part.type.startsWith("tool-");
}
