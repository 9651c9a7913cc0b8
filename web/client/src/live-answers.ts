import { liveFrame, type ToolResultData } from "./live-frames.js";
import { newId } from "./new-id.js";
import { NotConnected } from "./not-connected.js";

type Pending = {
  requestId: string;
  toolCallId: string;
  approvalId: string | undefined;
  frame: string;
  done: Promise<void>;
  resolve: () => void;
  reject: (error: Error) => void;
};

/**
 * Answers to calls that the server has not yet confirmed. They are said again on every new connection: of two equal
 * answers the server takes the first.
 */
export class LiveAnswers {
  private readonly pending = new Map<string, Pending>();

  /** What is to be sent for an answer, and when the server has it; the same answer twice is one. */
  add(data: ToolResultData): { frame: string | undefined; done: Promise<void> } {
    const key = keyOf(data);
    const before = this.pending.get(key);
    if (before !== undefined) return { frame: undefined, done: before.done };
    const answer = pending(data);
    this.pending.set(key, answer);
    return { frame: answer.frame, done: answer.done };
  }

  /** Whether an answer to a call is on its way. */
  has(toolCallId: string): boolean {
    return [...this.pending.values()].some((one) => one.toolCallId === toolCallId);
  }

  /** What a new connection begins with. */
  again(): string[] {
    return [...this.pending.values()].map(({ frame }) => frame);
  }

  /** The server has an answer to a call: the oldest that is on its way. */
  taken(toolCallId: string, approvalId?: string): void {
    const isOther = (one: Pending): boolean => (one.approvalId ?? approvalId) !== (approvalId ?? one.approvalId);
    const [key, answer] = [...this.pending].find(([, one]) => one.toolCallId === toolCallId && !isOther(one)) ?? [];
    if (key !== undefined) this.pending.delete(key);
    answer?.resolve();
  }

  /** A call is over. */
  settled(toolCallId: string): void {
    for (const [key, answer] of this.pending) {
      if (answer.toolCallId !== toolCallId) continue;
      this.pending.delete(key);
      answer.resolve();
    }
  }

  /** The server does not take an answer. False: it was about something else. */
  refused({ requestId, toolCallId }: { requestId: string | undefined; toolCallId: string | undefined }, error: Error): boolean {
    const isMeant = (one: Pending): boolean => one.requestId === requestId || one.toolCallId === toolCallId;
    const [key, answer] = [...this.pending].find(([, one]) => isMeant(one)) ?? [];
    if (key !== undefined) this.pending.delete(key);
    answer?.reject(error);
    return answer !== undefined;
  }

  /** No connection comes any more. */
  fail(error: Error): void {
    for (const answer of this.pending.values()) answer.reject(NotConnected.because(error));
    this.pending.clear();
  }
}

/** A browser call may be asked about and then run: a verdict and an output. */
function keyOf({ toolCallId, approvalId, status }: ToolResultData): string {
  return JSON.stringify([toolCallId, approvalId, status === undefined ? "output" : "verdict"]);
}

function pending(data: ToolResultData): Pending {
  const { toolCallId, approvalId } = data;
  const requestId = newId();
  let [resolve, reject] = [(): void => {}, (_: Error): void => {}];
  const done = new Promise<void>((resolved, rejected) => ([resolve, reject] = [resolved, rejected]));
  const frame = liveFrame("tool_result", { requestId, data });
  return { requestId, toolCallId, approvalId, frame, done, resolve, reject };
}
