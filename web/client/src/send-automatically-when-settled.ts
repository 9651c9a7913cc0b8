import { answersSent } from "./answers-sent.js";
import { isToolPart } from "./is-tool-part.js";
import { lastStep } from "./last-step.js";
import type { Message } from "./message.js";
import type { ToolPart } from "./tool-part.js";

/** A server that has nothing to say to some answers is not asked for ever. More than once, since a request may fail. */
const MAX_SENDS = 3;

/**
 * For `sendAutomaticallyWhen`: whether every call of the last step is settled, and an answer of this page is among that:
 * a verdict, whichever, or an output. The same answers leave three times in a row at most; what failed to leave does not
 * count.
 */
export function sendAutomaticallyWhenSettled({ messages }: { messages: readonly Message[] }): boolean {
  const message = messages.at(-1);
  const parts = lastStep(message);
  const calls = parts.filter(isToolPart);
  const leaves = message !== undefined && isSettled(calls, parts) && mayLeave(message, calls);
  // The chat asks on only when it was told to send: whoever asks after a no has something new in mind.
  if (!leaves) answersSent.forget(message);
  return leaves;
}

function isSettled(calls: ToolPart[], parts: readonly { type: string }[]): boolean {
  // What the model's provider executes is no concern of this page.
  const own = calls.filter((call) => !call.providerExecuted || isVerdict(call));
  if (!own.every((call) => isVerdict(call) || isResult(call) || call.state === "output-denied")) return false;
  if (own.some(isVerdict)) return true;
  // Behind outputs only, text that never ended is an answer that was broken off: nothing to go on from.
  return own.some(isResult) && !parts.slice(parts.findLastIndex(isToolPart) + 1).some(isOpenText);
}

function isVerdict(call: ToolPart): boolean {
  return call.state === "approval-responded";
}

function isResult(call: ToolPart): boolean {
  return call.state === "output-error" || (call.state === "output-available" && call.preliminary !== true);
}

function isOpenText(part: { type: string; state?: unknown }): boolean {
  return part.type === "text" && part.state !== "done";
}

function mayLeave(message: Message, calls: ToolPart[]): boolean {
  const states = calls.map((call) => [call.toolCallId, call.state, call.approval?.approved]);
  // With the step: some models number their calls anew in each.
  const answers = JSON.stringify([message.parts.findLastIndex((part) => part.type === "step-start"), states]);
  return answersSent.count(message, answers) <= MAX_SENDS;
}
