import { randomUUID } from "node:crypto";
import type { UIMessageChunk } from "ai";
import type * as Ai from "ai-7-0-169";

/** Make a message of the user. */
export function userMessage(text: string, id: string = randomUUID()): Ai.UIMessage {
  return { id, role: "user", parts: [{ type: "text", text }] };
}

/** Make the options that a chat gives to `sendMessages` for it. */
export function sendOptions(chatId: string, message: Ai.UIMessage, abortSignal?: AbortSignal): {
  trigger: "submit-message"; chatId: string; messageId: undefined; messages: Ai.UIMessage[]; abortSignal: AbortSignal | undefined;
} {
  return { trigger: "submit-message", chatId, messageId: undefined, messages: [message], abortSignal };
}

/** Read a stream to its end. */
export async function drain(stream: ReadableStream<UIMessageChunk> | null): Promise<UIMessageChunk[]> {
  const chunks: UIMessageChunk[] = [];
  for await (const chunk of stream ?? []) chunks.push(chunk);
  return chunks;
}

/** Load a chat from the server. */
export async function history(url: string, chatId: string): Promise<{ messages: Ai.UIMessage[]; active: { run: string } | null }> {
  const response = await fetch(`${url}/api/chats/${chatId}`);
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as { messages: Ai.UIMessage[]; active: { run: string } | null };
}

/** Return the text of a message. */
export function textOf(message: Ai.UIMessage | undefined): string {
  return (message?.parts ?? []).map((part) => (part.type === "text" ? part.text : "")).join("");
}
