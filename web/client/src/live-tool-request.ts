import type { ClientToolCall } from "./client-tool-call.js";

/** A call that somebody has to answer by `sendToolResult`. */
export interface LiveToolRequest extends ClientToolCall {
  /** `approval`: whether it may be executed. `output`: what came of it, if it is a tool of the page. */
  kind: "approval" | "output";
  /** The id of the question, with `approval`. */
  approvalId?: string;
}
