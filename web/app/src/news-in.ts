import { isToolUIPart, type UIMessage } from "ai";
import { lastStepCalls } from "./last-step-calls";

/** Of an agent's message only the answers to its calls can be news. */
function withoutContent(message: UIMessage): UIMessage {
  if (message.role !== "assistant") return message;
  return { ...message, parts: message.parts.filter((part) => part.type === "step-start" || isToolUIPart(part)) };
}

/** What a browser gave stays here until all calls of its step are answered. Whoever writes instead takes it along. */
function holdsOutputs(message: UIMessage | undefined): boolean {
  const states = lastStepCalls(message).map((part) => part.state);
  const settled = states.filter((state) => state === "output-available" || state === "output-error");
  return settled.length > 0 && settled.length < states.length;
}

/**
 * What the server does not know yet: as a rule the last message. It has the history; with pictures in it, sending it
 * along would soon be too much.
 */
export function newsIn(messages: UIMessage[]): UIMessage[] {
  const [before, last] = messages.slice(-2);
  const isTakenAlong = last?.role === "user" && holdsOutputs(before);
  return messages.slice(isTakenAlong ? -2 : -1).map(withoutContent);
}
