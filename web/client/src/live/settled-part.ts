import type { ToolPart } from "../tools/tool-part.js";

/**
 * The error texts of calls that were not executed, by the state that the server reports. History has the same texts.
 */
const ERROR_TEXTS = new Map([
  ["superseded", "The user went on without answering; this call was not executed."],
  ["stopped", "The user stopped; this call was not executed."],
  ["taken-over", "The user opened a live conversation before this call ran; it was not executed."],
  ["deleted", "The user deleted the chat; this call was not executed."],
  ["interrupted", "The server stopped before this call ran; it was not executed."],
  ["failed", "The answer failed before this call ran; it was not executed."],
  ["expired", "Nobody answered in time; this call was not executed."],
]);
/** The error text of a superseded call that had been approved. */
const SUPERSEDED_AFTER_ANSWER = "The user went on before this call ran; it was not executed.";
/** The states of a part whose call waits. */
const WAITING = new Set(["approval-requested", "approval-responded", "input-available"]);

/**
 * Return the part of a waiting call as it is after the server has reported this state. Other parts are returned as is.
 */
export function settledPart(part: ToolPart, state: string): ToolPart {
  if (!WAITING.has(part.state)) return part;
  if (state === "not executed") {
    return { ...part, state: "output-denied", approval: { ...part.approval, approved: false } };
  }
  const isAnswered = part.approval?.approved !== undefined;
  const errorText = state === "superseded" && isAnswered ? SUPERSEDED_AFTER_ANSWER : ERROR_TEXTS.get(state);
  return errorText === undefined ? part : ({ ...part, state: "output-error", errorText } as ToolPart);
}
