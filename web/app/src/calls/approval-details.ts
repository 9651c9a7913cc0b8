import type { UIMessage } from "ai";
import type { ToolPart } from "../transport/tool-part";

/** Which later calls an approval covers, too. */
export type Scope = "once" | "chat" | "always";

/** The data of the `data-approval` part that comes with a question. */
export interface ApprovalDetails {
  hint?: string;
  payload?: unknown;
  expiresAt?: string;
  /** The scopes that an approval may have. */
  scopes?: Scope[];
  /** The arguments as the user changed them. */
  edited?: unknown;
}

/** Return the details of the question about a call. */
export function approvalDetails(message: UIMessage, call: ToolPart): ApprovalDetails {
  const found = message.parts.find((part) =>
    part.type === "data-approval" && "id" in part && part.id === call.approval?.id);
  return found && "data" in found ? (found.data as ApprovalDetails) : {};
}
