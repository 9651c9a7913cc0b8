import { answersSent } from "./answers-sent.js";
import { lastStep, type Message } from "./message.js";
import { isToolPart, type ToolPart } from "./tool-part.js";

/** Times in a row that the same answers are sent. Bounded, since a server that ignores them would get them for ever. */
const MAX_SENDS = 3;

/**
 * Return true when a chat has to send the answers to its calls: every call of the last step is settled, at least one of
 * them by this page (a verdict or an output). For the chat's option `sendAutomaticallyWhen`. The same answers are sent
 * three times in a row at most; requests that failed do not count.
 */
export function sendAutomaticallyWhenSettled({ messages }: { messages: readonly Message[] }): boolean {
  const message = messages.at(-1);
  const parts = lastStep(message);
  const calls = parts.filter(isToolPart);
  const isDue = message !== undefined && isSettled(calls, parts) && mayBeSent(message, calls);
  // After a false the chat does not ask again by itself, so the next question comes from a new answer.
  if (!isDue) answersSent.forget(message);
  return isDue;
}

function isSettled(calls: ToolPart[], parts: readonly { type: string }[]): boolean {
  // Calls that the model's provider executes are not answered by this page.
  const own = calls.filter((call) => !call.providerExecuted || isVerdict(call));
  if (!own.every((call) => isVerdict(call) || isResult(call) || call.state === "output-denied")) return false;
  if (own.some(isVerdict)) return true;
  // Text after the outputs that never ended belongs to a run that was broken off: there is nothing to continue.
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

function mayBeSent(message: Message, calls: ToolPart[]): boolean {
  const states = calls.map((call) => [call.toolCallId, call.state, call.approval?.approved]);
  // Together with the step: some models number their calls anew in each.
  const answers = JSON.stringify([message.parts.findLastIndex((part) => part.type === "step-start"), states]);
  return answersSent.count(message, answers) <= MAX_SENDS;
}
