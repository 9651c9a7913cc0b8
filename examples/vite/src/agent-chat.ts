import { Chat } from "@ai-sdk/react";
import {
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  type UIMessage,
} from "ai";
import { browserTools } from "./browser-tools";
import type { History } from "./history";
import { transport } from "./transport";

/**
 * The open chats, outside of React: AI SDK 7 aborts the request of a `useChat` that unmounts with a Chat of its own,
 * which stops the agent over a WebSocket and loses sight of the answer over HTTP. These go on.
 */
export const chats = new Map<string, Chat<UIMessage>>();

export function openChat(id: string, history?: History): Chat<UIMessage> {
  const chat: Chat<UIMessage> = new Chat({
    id,
    transport,
    messages: history?.messages ?? [],
    // Sends when every call of the step is approved, denied or answered.
    sendAutomaticallyWhen: (options) =>
      lastAssistantMessageIsCompleteWithApprovalResponses(options) ||
      lastAssistantMessageIsCompleteWithToolCalls(options),
    // Not awaited: the chat waits for onToolCall, and addToolOutput waits for the chat.
    onToolCall: ({ toolCall }) => void run(toolCall.toolName, toolCall.toolCallId, toolCall.input),
  });

  async function run(tool: string, toolCallId: string, input: unknown): Promise<void> {
    const handler = browserTools.get(tool);
    if (!handler) return; // a tool of the server: onToolCall fires for these, too
    try {
      const output = (await handler(input)) ?? null;
      void chat.addToolOutput({ tool, toolCallId, output });
    } catch (error) {
      void chat.addToolOutput({ tool, toolCallId, state: "output-error", errorText: String(error) });
    }
  }

  if (typeof window === "undefined") return chat; // rendered on a server, which keeps no chats
  chats.set(id, chat);
  // After a reload: go on with the answer that is being written, and run the calls that wait for this browser.
  if (history?.active) void chat.resumeStream({ body: { run: history.active.run } });
  const waiting = history?.pending.filter((call) => call.kind === "client") ?? [];
  for (const { tool, toolCallId, input } of waiting) void run(tool, toolCallId, input);
  return chat;
}

/** Stops the agent. `stop()` of a stock chat over HTTP only closes the connection. */
export async function stopAgent({ id }: Chat<UIMessage>): Promise<void> {
  await fetch(`/api/chat/${encodeURIComponent(id)}/stop`, { method: "POST" });
}

/** What to tell a person: a refused request has a JSON body, a failed answer a sentence. */
export function explain(error: Error): string {
  try {
    const { message, hint } = JSON.parse(error.message).error;
    return hint ? `${message} ${hint}` : message;
  } catch {
    return error.message;
  }
}
