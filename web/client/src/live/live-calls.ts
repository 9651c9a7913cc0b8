import type { UIMessageChunk } from "ai";
import { BoundedMap } from "../common/bounded-map.js";
import { callKey, callOf, type ClientToolCall, isOffered, type ToolPart } from "../tools/tool-part.js";
import type { LiveChunkStream } from "./live-chunk-stream.js";
import type { ToolResultData } from "./live-frames.js";

/** A call that waits for `sendToolResult`. */
export interface LiveToolRequest extends ClientToolCall {
  /** `approval`: the call waits for a verdict. `output`: it is a tool of the page, and waits for its output. */
  kind: "approval" | "output";
  /** With `approval`: the id of the approval request. */
  approvalId?: string;
}

export type LiveCallsOptions = {
  toolCallCallback?: ((call: ClientToolCall) => unknown) | undefined;
  onToolCallRequest?: ((request: LiveToolRequest) => void) | undefined;
};

/** The fields that are read of the stream that a chunk belongs to. */
type StreamState = Pick<LiveChunkStream, "messageId" | "hasStep">;
/** What the chunks have brought of a call: its tool, the text of its arguments so far, and the arguments. */
type KnownCall = { toolName: string; text: string; input: unknown };

/** Calls that are remembered, in order not to report one twice. */
const MAX_CALLS = 1000;

/**
 * The calls of a live chat that wait for the page or for a person. Each is reported once. A call is identified together
 * with its message: some models number their calls anew in each turn.
 */
export class LiveCalls {
  private readonly known = new BoundedMap<string, KnownCall>(MAX_CALLS);
  /** The keys of calls and the ids of approval requests that were reported. */
  private readonly reported = new BoundedMap<string, true>(MAX_CALLS);

  /** `answer` sends an answer. `isShown` returns true for a call that is in a message of the chat. */
  constructor(
    private readonly options: LiveCallsOptions,
    private readonly answer: (data: ToolResultData) => void,
    private readonly isShown: (messageId: string, toolCallId: string) => boolean = () => false,
  ) {}

  /** Take a chunk, and report the call that waits since this chunk, if there is one. */
  chunk(chunk: UIMessageChunk, stream: StreamState): void {
    const key = "toolCallId" in chunk ? callKey(stream.messageId, chunk.toolCallId) : "";
    switch (chunk.type) {
      case "tool-input-start":
        return void this.known.set(key, { toolName: chunk.toolName, text: "", input: undefined });
      case "tool-input-delta":
        return this.addText(key, chunk.inputTextDelta);
      case "tool-input-available":
        if (chunk.providerExecuted) return;
        return this.available(key, chunk, this.isPageCall(key, chunk.toolCallId, stream));
      case "tool-approval-request":
        return this.approvalRequested(key, chunk.toolCallId, chunk.approvalId);
    }
  }

  /** Report a call of a message that was loaded with the history, if it waits. */
  loaded(messageId: string, part: ToolPart): void {
    const call = callOf(part);
    const approvalId = part.state === "approval-requested" ? part.approval?.id : undefined;
    if (approvalId !== undefined) this.reportApproval({ kind: "approval", ...call, approvalId });
    if (isOffered(part)) this.available(callKey(messageId, part.toolCallId), call, true);
  }

  private addText(key: string, delta: string): void {
    const call = this.known.get(key);
    if (call) call.text += delta;
  }

  /**
   * Return true for a call that the page has to run. The arguments of such a call come first as a text that is whole
   * JSON, and again when the call may be run; a stream that continues a message brings them only again, before its
   * first step. The arguments of a call that the server runs come without a text, or after a streamed text that is not
   * whole.
   */
  private isPageCall(key: string, toolCallId: string, { messageId, hasStep }: StreamState): boolean {
    const before = this.known.get(key);
    if (before) return parsed(before.text) !== undefined;
    return !hasStep && this.isShown(messageId, toolCallId);
  }

  private available(key: string, { toolCallId, toolName, input }: ClientToolCall, isPageCall: boolean): void {
    this.known.set(key, { toolName, text: this.known.get(key)?.text ?? "", input });
    if (this.isNew(key) && isPageCall) void this.run({ toolCallId, toolName, input });
  }

  private approvalRequested(key: string, toolCallId: string, approvalId: string): void {
    const { toolName = "", text = "", input } = this.known.get(key) ?? {};
    this.reportApproval({ kind: "approval", toolCallId, toolName, input: input ?? parsed(text), approvalId });
  }

  private reportApproval(request: LiveToolRequest & { approvalId: string }): void {
    if (this.isNew(request.approvalId)) this.options.onToolCallRequest?.(request);
  }

  /** Return true the first time. A stream that is resumed brings its calls a second time. */
  private isNew(id: string): boolean {
    if (this.reported.has(id)) return false;
    this.reported.set(id, true);
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
