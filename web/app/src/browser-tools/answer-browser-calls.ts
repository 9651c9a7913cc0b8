import type { Chat } from "@ai-sdk/react";
import type { UIMessage } from "ai";
import { loadHistory, type PendingCall } from "../sync/history";
import { lastStepCalls } from "../transport/tool-part";
import { runBrowserTool } from "./browser-tools";

function isAwaited(chat: Chat<UIMessage>, call: string): boolean {
  return lastStepCalls(chat.lastMessage).some((part) => part.toolCallId === call && part.state === "input-available");
}

async function answer(chat: Chat<UIMessage>, { toolCallId, tool, input }: PendingCall): Promise<void> {
  // The message's id is part of the key: some models repeat the ids of their calls in every answer.
  const outcome = await runBrowserTool(`${chat.id} ${chat.lastMessage?.id} ${toolCallId}`, tool, input);
  // A message that was sent meanwhile has superseded the call.
  if (!isAwaited(chat, toolCallId)) return;
  await chat.addToolOutput("output" in outcome
    ? { tool, toolCallId, output: outcome.output }
    : { tool, toolCallId, state: "output-error", errorText: outcome.errorText });
}

/**
 * Run the calls that wait for a browser. The server says which: a tool of the agent may have the name of one of this
 * page, and a stream that is resumed after a reload shows calls that were answered before.
 */
export async function answerBrowserCalls(chat: Chat<UIMessage>): Promise<void> {
  const { pending } = await loadHistory(chat.id, 1);
  const awaited = pending.filter(({ kind, toolCallId }) => kind === "client" && isAwaited(chat, toolCallId));
  await Promise.all(awaited.map((call) => answer(chat, call)));
}
