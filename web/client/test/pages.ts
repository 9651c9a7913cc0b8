import { randomUUID } from "node:crypto";
import type * as Ai from "ai-7-0-169";
import type { UIMessageChunk } from "ai";

/** A message as a person types it. */
export function said(text: string, id: string = randomUUID()): Ai.UIMessage {
  return { id, role: "user", parts: [{ type: "text", text }] };
}

/** What a transport is asked to send for it. */
export function sending(chatId: string, message: Ai.UIMessage, abortSignal?: AbortSignal): {
  trigger: "submit-message"; chatId: string; messageId: undefined; messages: Ai.UIMessage[]; abortSignal: AbortSignal | undefined;
} {
  return { trigger: "submit-message", chatId, messageId: undefined, messages: [message], abortSignal };
}

/** All that a stream brings. */
export async function drain(stream: ReadableStream<UIMessageChunk> | null): Promise<UIMessageChunk[]> {
  const chunks: UIMessageChunk[] = [];
  for await (const chunk of stream ?? []) chunks.push(chunk);
  return chunks;
}

/** A chat as the server has it. */
export async function history(url: string, chatId: string): Promise<{ messages: Ai.UIMessage[]; active: { run: string } | null }> {
  const response = await fetch(`${url}/api/chats/${chatId}`);
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as { messages: Ai.UIMessage[]; active: { run: string } | null };
}

/** The words in a message. */
export function textOf(message: Ai.UIMessage | undefined): string {
  return (message?.parts ?? []).map((part) => (part.type === "text" ? part.text : "")).join("");
}
