import type { UIMessageChunk } from "ai";

/** The chunk in an event's data. Types that this client does not know are left to the chat, which passes them over. */
export function parseChunk(data: string): UIMessageChunk {
  const chunk: unknown = JSON.parse(data);
  if (typeof chunk !== "object" || chunk === null || !("type" in chunk) || typeof chunk.type !== "string") {
    throw new TypeError("The server sent an event that is no chunk of a message.");
  }
  return chunk as UIMessageChunk;
}
