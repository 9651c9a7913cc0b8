import type { ChatStatus } from "ai";

/** Return whether a request is on its way or an answer is being streamed. */
export function isBusy(status: ChatStatus): boolean {
  return status === "submitted" || status === "streaming";
}
