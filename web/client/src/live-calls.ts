import type { UIMessageChunk } from "ai";
import type { ClientToolCall } from "./client-tool-call.js";
import type { ToolResultData } from "./live-frames.js";
import type { LiveToolRequest } from "./live-tool-request.js";

export type LiveCallsOptions = {
  toolCallCallback?: ((call: ClientToolCall) => unknown) | undefined;
  onToolCallRequest?: ((request: LiveToolRequest) => void) | undefined;
};

type Known = { toolName: string; text: string; input: unknown };

const MAX_CALLS = 1000;

/** The calls in the answers of a live chat, offered to the page: each once. */
export class LiveCalls {
  private readonly known = new Map<string, Known>();
  private readonly offered = new Set<string>();

  constructor(
    private readonly options: LiveCallsOptions,
    private readonly answer: (data: ToolResultData) => void,
  ) {}

  chunk(chunk: UIMessageChunk): void {
    switch (chunk.type) {
      case "tool-input-start":
        return this.know(chunk.toolCallId, { toolName: chunk.toolName, text: "", input: undefined });
      case "tool-input-delta":
        return this.grow(chunk.toolCallId, chunk.inputTextDelta);
      case "tool-input-available":
        return chunk.providerExecuted ? undefined : this.available(chunk.toolCallId, chunk.toolName, chunk.input);
      case "tool-approval-request":
        return this.asked(chunk.toolCallId, chunk.approvalId);
    }
  }

  private know(toolCallId: string, call: Known): void {
    this.known.set(toolCallId, call);
    const [oldest] = this.known.keys();
    if (this.known.size > MAX_CALLS && oldest !== undefined) this.known.delete(oldest);
  }

  private grow(toolCallId: string, delta: string): void {
    const call = this.known.get(toolCallId);
    if (call) call.text += delta;
  }

  private available(toolCallId: string, toolName: string, input: unknown): void {
    this.know(toolCallId, { toolName, text: "", input });
    if (this.isNew(toolCallId)) void this.run({ toolCallId, toolName, input });
  }

  private asked(toolCallId: string, approvalId: string): void {
    const { toolName = "", text = "", input } = this.known.get(toolCallId) ?? {};
    if (this.isNew(approvalId)) {
      this.options.onToolCallRequest?.({ kind: "approval", toolCallId, toolName, input: input ?? parsed(text), approvalId });
    }
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
