import type { ToolPart } from "./tool-part.js";

/** Whether a call in a message that is not being written waits for the page to run it. */
export function isOffered(part: ToolPart): boolean {
  return part.state === "input-available" && !part.providerExecuted;
}
