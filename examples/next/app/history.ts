import type { UIMessage } from "ai";

/** What adkwire keeps of a chat. */
export type History = {
  messages: UIMessage[];
  /** The answer that is being written. */
  active: { run: string } | null;
  /** The calls that wait for a person or, with the kind `client`, for the browser. */
  pending: { kind: string; tool: string; toolCallId: string; input: unknown }[];
};

const EMPTY: History = { messages: [], active: null, pending: [] };

export async function loadHistory(id: string, server = ""): Promise<History> {
  const response = await fetch(`${server}/api/chats/${encodeURIComponent(id)}`);
  if (response.status === 404) return EMPTY;
  if (!response.ok) throw new Error(`The chat could not be loaded: ${response.status}. Does adkwire run?`);
  return (await response.json()) as History;
}
