import { isToolUIPart, type UIMessage } from "ai";
import { lastStepCalls } from "./tool-part";

/** Keep only the calls of an assistant message: the server reads nothing else of it. */
function withoutContent(message: UIMessage): UIMessage {
  if (message.role !== "assistant") return message;
  return { ...message, parts: message.parts.filter((part) => part.type === "step-start" || isToolUIPart(part)) };
}

/** Return whether some, but not all, calls of the last step have outputs: these were not sent yet. */
function holdsOutputs(message: UIMessage | undefined): boolean {
  const states = lastStepCalls(message).map((part) => part.state);
  const settled = states.filter((state) => state === "output-available" || state === "output-error");
  return settled.length > 0 && settled.length < states.length;
}

/**
 * Return what the server does not know yet: the last message, and before a user message also outputs that were waiting
 * for the rest of their step. The history itself stays here: with images in it, it would soon exceed the body limit.
 */
export function unsentMessages(messages: UIMessage[]): UIMessage[] {
  const [before, last] = messages.slice(-2);
  const hasOutputs = last?.role === "user" && holdsOutputs(before);
  return messages.slice(hasOutputs ? -2 : -1).map(withoutContent);
}
