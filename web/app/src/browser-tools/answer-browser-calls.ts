import type { Chat } from "@ai-sdk/react";
import type { UIMessage } from "ai";
import { loadHistory, type PendingCall } from "../sync/history";
import { lastStepCalls } from "../transport/tool-part";
import { runBrowserTool } from "./browser-tools";

function isAwaited(chat: Chat<UIMessage>, call: string): boolean {
  return lastStepCalls(chat.lastMessage).some((part) => part.toolCallId === call && part.state === "input-available");
}

async function answer(chat: Chat<UIMessage>, { toolCallId, tool, input }: PendingCall): Promise<void> {
  // With the message: some models number their calls anew in every answer.
  const outcome = await runBrowserTool(`${chat.id} ${chat.lastMessage?.id} ${toolCallId}`, tool, input);
  // The person may have written something else meanwhile: then nobody waits for this any more.
  if (!isAwaited(chat, toolCallId)) return;
  await chat.addToolOutput("output" in outcome
    ? { tool, toolCallId, output: outcome.output }
    : { tool, toolCallId, state: "output-error", errorText: outcome.errorText });
}

/**
 * Runs the calls that wait for a browser. Which ones do, the server says: a tool of the agent's own may have the name of
 * one of ours, and a stream that is read again after a reload shows calls that were answered long ago.
 */
export async function answerBrowserCalls(chat: Chat<UIMessage>): Promise<void> {
  const { pending } = await loadHistory(chat.id, 1);
  const awaited = pending.filter(({ kind, toolCallId }) => kind === "client" && isAwaited(chat, toolCallId));
  await Promise.all(awaited.map((call) => answer(chat, call)));
}
