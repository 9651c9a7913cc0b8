import { callOf } from "./call-of.js";
import type { ClientToolCall } from "./client-tool-call.js";
import type { ClientToolHandler } from "./client-tool-handler.js";
import type { ClientToolRunner } from "./client-tool-runner.js";
import type { ClientToolsOptions } from "./client-tools-options.js";
import { isOffered } from "./is-offered.js";
import { isToolPart } from "./is-tool-part.js";
import { lastStep } from "./last-step.js";
import type { ToolChat } from "./tool-chat.js";
import type { ToolOutput } from "./tool-output.js";
import type { ToolPart } from "./tool-part.js";

/** A call that was run. */
interface RunCall {
  /** Where it was found; `onToolCall` does not know. Some models number their calls anew in each message. */
  message: string | undefined;
  /** What came of it, once it has ended. */
  output: ToolOutput | undefined;
  /** Whether the chat was seen with it. */
  isShown: boolean;
}

/**
 * Runs the tools that are the page's, each call once. Calls of other tools are left alone: `onToolCall` fires for those of
 * the server, too. One for each chat.
 */
export function clientTools(handlers: Record<string, ClientToolHandler>, options: ClientToolsOptions = {}): ClientToolRunner {
  const ran = new Map<string, RunCall>();
  const waiting: ToolOutput[] = [];
  let target: ToolChat | undefined;

  function runs(toolName: string): boolean {
    return Object.hasOwn(handlers, toolName);
  }

  function deliver(): void {
    // Not awaited: inside of `onToolCall`, the chat would wait for itself.
    if (target) for (const output of waiting.splice(0)) void target.addToolOutput(output);
  }

  function give(call: RunCall, output: ToolOutput): void {
    call.isShown = false;
    waiting.push(output);
    deliver();
  }

  async function run(call: ClientToolCall, message?: string): Promise<void> {
    const handler = runs(call.toolName) ? handlers[call.toolName] : undefined;
    const before = ran.get(call.toolCallId);
    if (!handler || (before && !before.output)) return;
    const running: RunCall = { message, output: undefined, isShown: false };
    ran.set(call.toolCallId, running);
    running.output = await outcome(handler, call, options.errorText);
    give(running, running.output);
  }

  function ranIn(message: string, call: string): RunCall | undefined {
    const known = ran.get(call);
    if (known) known.message ??= message;
    return known?.message === message ? known : undefined;
  }

  /** Runs a call that waits, or gives its output again: a chat that has lost it was loaded anew before it had left. */
  function answer(part: ToolPart, message: string): void {
    const known = ranIn(message, part.toolCallId);
    if (!known) void run(callOf(part), message);
    else if (known.output && known.isShown) give(known, known.output);
  }

  return {
    runs,
    onToolCall: ({ toolCall }) => void run(toolCall),
    pickUp: (chat) => {
      target = chat;
      deliver();
      const message = chat.messages.at(-1);
      if (!message) return;
      const isBusy = chat.status === "submitted" || chat.status === "streaming";
      for (const part of lastStep(message).filter(isToolPart)) {
        const known = isOutput(part) ? ranIn(message.id, part.toolCallId) : undefined;
        if (known) known.isShown = true;
        else if (isOffered(part) && !isBusy) answer(part, message.id);
      }
    },
  };
}

async function outcome(
  handler: ClientToolHandler, call: ClientToolCall, errorText: ClientToolsOptions["errorText"],
): Promise<ToolOutput> {
  const { toolName: tool, toolCallId } = call;
  try {
    const output: unknown = await handler(call.input as never, call);
    // What is undefined is lost on the way, and with it the answer.
    return { tool, toolCallId, output: output ?? null };
  } catch (error) {
    const said = errorText?.(error, call) ?? (error instanceof Error ? error.message : String(error));
    return { tool, toolCallId, state: "output-error", errorText: said };
  }
}

function isOutput({ state }: ToolPart): boolean {
  return state === "output-available" || state === "output-error";
}
