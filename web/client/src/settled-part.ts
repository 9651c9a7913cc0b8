import type { ToolPart } from "./tool-part.js";

/** What the page reads of calls that were taken back: the server's own words, as they are in its history. */
const WHY = new Map([
  ["superseded", "The user went on without answering; this call was not executed."],
  ["stopped", "The user stopped; this call was not executed."],
  ["interrupted", "The server stopped before this call ran; it was not executed."],
  ["failed", "The answer failed before this call ran; it was not executed."],
  ["expired", "Nobody answered in time; this call was not executed."],
]);
const WENT_ON = "The user went on before this call ran; it was not executed.";
const WAITING = new Set(["approval-requested", "approval-responded", "input-available"]);

/** A call that waits, as it is once the server says what became of it. What brings an output later stays as it is. */
export function settledPart(part: ToolPart, state: string): ToolPart {
  if (!WAITING.has(part.state)) return part;
  if (state === "not executed") return { ...part, state: "output-denied", approval: { ...part.approval, approved: false } };
  const isAnswered = part.approval?.approved !== undefined;
  const errorText = state === "superseded" && isAnswered ? WENT_ON : WHY.get(state);
  return errorText === undefined ? part : ({ ...part, state: "output-error", errorText } as ToolPart);
}
