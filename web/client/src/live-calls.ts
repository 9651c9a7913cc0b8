import type { UIMessageChunk } from "ai";
import { callKey } from "./call-key.js";
import { callOf } from "./call-of.js";
import type { ClientToolCall } from "./client-tool-call.js";
import { isOffered } from "./is-offered.js";
import type { LiveAnswer } from "./live-answer.js";
import type { ToolResultData } from "./live-frames.js";
import type { LiveToolRequest } from "./live-tool-request.js";
import type { ToolPart } from "./tool-part.js";

export type LiveCallsOptions = {
  toolCallCallback?: ((call: ClientToolCall) => unknown) | undefined;
  onToolCallRequest?: ((request: LiveToolRequest) => void) | undefined;
};

/** What is read of the answer that a chunk is in. */
type Place = Pick<LiveAnswer, "messageId" | "hasStep">;
type Known = { toolName: string; text: string; input: unknown };

const MAX_CALLS = 1000;

/**
 * The calls of a live chat that wait for the page or a person, told once each. Some models number their calls anew in each
 * answer: a call is one of its message.
 */
export class LiveCalls {
  private readonly known = new Map<string, Known>();
  private readonly offered = new Set<string>();

  constructor(
    private readonly options: LiveCallsOptions,
    private readonly answer: (data: ToolResultData) => void,
    /** Whether a call is in a message of the chat. */
    private readonly isShown: (messageId: string, toolCallId: string) => boolean = () => false,
  ) {}

  chunk(chunk: UIMessageChunk, answer: Place): void {
    const key = "toolCallId" in chunk ? callKey(answer.messageId, chunk.toolCallId) : "";
    switch (chunk.type) {
      case "tool-input-start":
        return this.know(key, { toolName: chunk.toolName, text: "", input: undefined });
      case "tool-input-delta":
        return this.grow(key, chunk.inputTextDelta);
      case "tool-input-available":
        return chunk.providerExecuted ? undefined : this.available(key, chunk, this.isOurs(key, chunk.toolCallId, answer));
      case "tool-approval-request":
        return this.asked(key, chunk.toolCallId, chunk.approvalId);
    }
  }

  /** A call in a message that was not read here but loaded. */
  loaded(messageId: string, part: ToolPart): void {
    const call = callOf(part);
    const approvalId = part.state === "approval-requested" ? part.approval?.id : undefined;
    if (approvalId !== undefined) this.ask({ kind: "approval", ...call, approvalId });
    if (isOffered(part)) this.available(callKey(messageId, part.toolCallId), call, true);
  }

  private know(key: string, call: Known): void {
    this.known.set(key, call);
    const [oldest] = this.known.keys();
    if (this.known.size > MAX_CALLS && oldest !== undefined) this.known.delete(oldest);
  }

  private grow(key: string, delta: string): void {
    const call = this.known.get(key);
    if (call) call.text += delta;
  }

  // Calls of the server come whole, or behind arguments that were streamed and are never closed. Those of the page come
  // as a whole text first, and so again when they may be run; in an answer that goes on with a message only the latter.
  private isOurs(key: string, toolCallId: string, { messageId, hasStep }: Place): boolean {
    const before = this.known.get(key);
    if (before) return parsed(before.text) !== undefined;
    return !hasStep && this.isShown(messageId, toolCallId);
  }

  private available(key: string, { toolCallId, toolName, input }: ClientToolCall, isOurs: boolean): void {
    this.know(key, { toolName, text: this.known.get(key)?.text ?? "", input });
    if (this.isNew(key) && isOurs) void this.run({ toolCallId, toolName, input });
  }

  private asked(key: string, toolCallId: string, approvalId: string): void {
    const { toolName = "", text = "", input } = this.known.get(key) ?? {};
    this.ask({ kind: "approval", toolCallId, toolName, input: input ?? parsed(text), approvalId });
  }

  private ask(request: LiveToolRequest & { approvalId: string }): void {
    if (this.isNew(request.approvalId)) this.options.onToolCallRequest?.(request);
  }

  /** An answer that is resumed brings calls a second time. */
  private isNew(id: string): boolean {
    if (this.offered.has(id)) return false;
    this.offered.add(id);
    const [oldest] = this.offered;
    if (this.offered.size > MAX_CALLS && oldest !== undefined) this.offered.delete(oldest);
    return true;
  }

  private async run(call: ClientToolCall): Promise<void> {
    const { toolCallId } = call;
    try {
      const result: unknown = await this.options.toolCallCallback?.(call);
      if (result === undefined) this.options.onToolCallRequest?.({ kind: "output", ...call });
      else this.answer({ toolCallId, result });
    } catch (error) {
      this.answer({ toolCallId, error: error instanceof Error ? error.message : String(error) });
    }
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
