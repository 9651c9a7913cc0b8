import { lastStep, type Message } from "./message.js";
import { callOf, type ClientToolCall, isOffered, isToolPart, type ToolPart } from "./tool-part.js";

/**
 * A function that runs a tool in the page. What it returns is the output; what it throws goes to the model as an error.
 * It may declare the type of its input: the server has checked the arguments against the tool's schema.
 */
export type ClientToolHandler = (input: never, call: ClientToolCall) => unknown;

/** The options of `clientTools`. */
export interface ClientToolsOptions {
  /** Returns the text that the model gets for an error; the error's message by default. */
  errorText?: (error: unknown, call: ClientToolCall) => string;
}

/** The argument of a chat's `addToolOutput`, in AI SDK 6 and 7. */
export type ToolOutput =
  | { tool: string; toolCallId: string; output: unknown }
  | { tool: string; toolCallId: string; state: "output-error"; errorText: string };

/** The members of a chat that are used: a `Chat` has them, and so has the object that `useChat` returns. */
export interface ToolChat {
  readonly messages: readonly Message[];
  readonly status: string;
  addToolOutput(output: ToolOutput): unknown;
}

/** A runner of the page's tools, made by `clientTools`. */
export interface ClientToolRunner {
  /** Returns true for a tool that has a handler. */
  runs: (toolName: string) => boolean;
  /** The chat's option of this name. */
  onToolCall: (event: { toolCall: ClientToolCall }) => void;
  /**
   * Takes the chat that gets the outputs, and runs the calls that wait in it: after a reload the chat does not call
   * `onToolCall` for those. May be called any number of times, also on every render.
   */
  pickUp: (chat: ToolChat) => void;
}

/** A call that is running or was run. */
interface RunCall {
  /** The message of the call. Undefined until `pickUp` finds it: `onToolCall` does not name the message. */
  messageId: string | undefined;
  /** The output, once the handler has ended. */
  output: ToolOutput | undefined;
  /** True once the chat's message was seen with this output. */
  isShown: boolean;
}

/**
 * Make a runner for the page's tools that runs each call once. It ignores calls without a handler: a chat calls
 * `onToolCall` for the server's tools, too. Each chat needs a runner of its own.
 */
export function clientTools(
  handlers: Record<string, ClientToolHandler>, options: ClientToolsOptions = {},
): ClientToolRunner {
  const runCalls = new Map<string, RunCall>();
  const undelivered: ToolOutput[] = [];
  let target: ToolChat | undefined;

  function runs(toolName: string): boolean {
    return Object.hasOwn(handlers, toolName);
  }

  function deliverAll(): void {
    // Not awaited: inside of `onToolCall` the chat would wait for itself.
    if (target) for (const output of undelivered.splice(0)) void target.addToolOutput(output);
  }

  function deliver(call: RunCall, output: ToolOutput): void {
    call.isShown = false;
    undelivered.push(output);
    deliverAll();
  }

  async function run(call: ClientToolCall, messageId?: string): Promise<void> {
    const handler = runs(call.toolName) ? handlers[call.toolName] : undefined;
    const before = runCalls.get(call.toolCallId);
    if (!handler || (before && !before.output)) return;
    const running: RunCall = { messageId, output: undefined, isShown: false };
    runCalls.set(call.toolCallId, running);
    running.output = await outputOf(handler, call, options.errorText);
    deliver(running, running.output);
  }

  /** Return the call that was run in this message. A call of another message with the same id is another call. */
  function findRun(messageId: string, toolCallId: string): RunCall | undefined {
    const found = runCalls.get(toolCallId);
    if (found) found.messageId ??= messageId;
    return found?.messageId === messageId ? found : undefined;
  }

  /**
   * Run a call that waits. If it was run and its output shown before, the chat was reloaded without it: deliver it
   * again.
   */
  function settle(part: ToolPart, messageId: string): void {
    const found = findRun(messageId, part.toolCallId);
    if (!found) void run(callOf(part), messageId);
    else if (found.output && found.isShown) deliver(found, found.output);
  }

  return {
    runs,
    onToolCall: ({ toolCall }) => void run(toolCall),
    pickUp: (chat) => {
      target = chat;
      deliverAll();
      const message = chat.messages.at(-1);
      if (!message) return;
      const isBusy = chat.status === "submitted" || chat.status === "streaming";
      for (const part of lastStep(message).filter(isToolPart)) {
        const found = hasOutput(part) ? findRun(message.id, part.toolCallId) : undefined;
        if (found) found.isShown = true;
        else if (isOffered(part) && !isBusy) settle(part, message.id);
      }
    },
  };
}

async function outputOf(
  handler: ClientToolHandler, call: ClientToolCall, errorText: ClientToolsOptions["errorText"],
): Promise<ToolOutput> {
  const { toolName: tool, toolCallId } = call;
  try {
    const output: unknown = await handler(call.input as never, call);
    // JSON leaves out a key whose value is undefined, and the server would find no output.
    return { tool, toolCallId, output: output ?? null };
  } catch (error) {
    const text = errorText?.(error, call) ?? (error instanceof Error ? error.message : String(error));
    return { tool, toolCallId, state: "output-error", errorText: text };
  }
}

function hasOutput({ state }: ToolPart): boolean {
  return state === "output-available" || state === "output-error";
}
