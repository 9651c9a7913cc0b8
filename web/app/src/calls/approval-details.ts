import type { UIMessage } from "ai";
import type { ToolPart } from "../transport/tool-part";

/** What the server says beside a question, in a part of its own. */
export interface ApprovalDetails {
  hint?: string;
  payload?: unknown;
  expiresAt?: string;
  /** The arguments that the person put in place of the model's. */
  edited?: unknown;
}

/** The details of the question about a call. */
export function approvalDetails(message: UIMessage, call: ToolPart): ApprovalDetails {
  const found = message.parts.find((part) =>
    part.type === "data-approval" && "id" in part && part.id === call.approval?.id);
  return found && "data" in found ? (found.data as ApprovalDetails) : {};
}
