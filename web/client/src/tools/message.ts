/**
 * The fields that are read of a chat's message. The messages of AI SDK 6 and 7 both fit, whatever their type
 * parameters.
 */
export interface Message {
  id: string;
  role: string;
  parts: readonly { type: string }[];
}

/** Return the parts of an assistant's message since its last step began: only its calls can still be answered. */
export function lastStep(message: Message | undefined): readonly { type: string }[] {
  if (message?.role !== "assistant") return [];
  return message.parts.slice(message.parts.findLastIndex((part) => part.type === "step-start") + 1);
}
