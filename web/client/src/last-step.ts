import type { Message } from "./message.js";

/** The parts of an assistant's message since its last step began: all that an answer to a call can be about. */
export function lastStep(message: Message | undefined): readonly { type: string }[] {
  if (message?.role !== "assistant") return [];
  return message.parts.slice(message.parts.findLastIndex((part) => part.type === "step-start") + 1);
}
