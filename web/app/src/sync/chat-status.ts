import type { ChatStatus } from "ai";

/** Whether an answer is asked for or being written. */
export function isBusy(status: ChatStatus): boolean {
  return status === "submitted" || status === "streaming";
}
