import { newId } from "../common/new-id.js";
import { NotConnected } from "../errors.js";
import { liveFrame, type ToolResultData } from "./live-frames.js";

type UnconfirmedAnswer = {
  requestId: string;
  toolCallId: string;
  approvalId: string | undefined;
  frame: string;
  done: Promise<void>;
  resolve: () => void;
  reject: (error: Error) => void;
};

/**
 * The answers to calls that the server has not confirmed. They are sent again on every new connection: of two equal
 * answers the server takes the first.
 */
export class UnconfirmedAnswers {
  private readonly answers = new Map<string, UnconfirmedAnswer>();

  /**
   * Add an answer. `frame` is to be sent, unless the same answer was added before; `done` resolves when it is
   * confirmed.
   */
  add(data: ToolResultData): { frame: string | undefined; done: Promise<void> } {
    const key = keyOf(data);
    const before = this.answers.get(key);
    if (before !== undefined) return { frame: undefined, done: before.done };
    const answer = unconfirmed(data);
    this.answers.set(key, answer);
    return { frame: answer.frame, done: answer.done };
  }

  /** Return true while an answer to this call is not confirmed. */
  has(toolCallId: string): boolean {
    return [...this.answers.values()].some((answer) => answer.toolCallId === toolCallId);
  }

  /** Return the frames to send on a new connection. */
  frames(): string[] {
    return [...this.answers.values()].map(({ frame }) => frame);
  }

  /** Confirm the oldest answer to a call; with `approvalId`, the oldest that may be to this question. */
  confirm(toolCallId: string, approvalId?: string): void {
    const isOther = (answer: UnconfirmedAnswer): boolean =>
      (answer.approvalId ?? approvalId) !== (approvalId ?? answer.approvalId);
    const [key, answer] = [...this.answers].find(([, one]) => one.toolCallId === toolCallId && !isOther(one)) ?? [];
    if (key !== undefined) this.answers.delete(key);
    answer?.resolve();
  }

  /** Confirm all answers to a call, because it has an output. */
  confirmAll(toolCallId: string): void {
    for (const [key, answer] of this.answers) {
      if (answer.toolCallId !== toolCallId) continue;
      this.answers.delete(key);
      answer.resolve();
    }
  }

  /** Reject the answer that the server has refused. Return false when the refusal is about something else. */
  refuse(refusal: { requestId: string | undefined; toolCallId: string | undefined }, error: Error): boolean {
    const { requestId, toolCallId } = refusal;
    const isRefused = (answer: UnconfirmedAnswer): boolean =>
      answer.requestId === requestId || answer.toolCallId === toolCallId;
    const [key, answer] = [...this.answers].find(([, one]) => isRefused(one)) ?? [];
    if (key !== undefined) this.answers.delete(key);
    answer?.reject(error);
    return answer !== undefined;
  }

  /** Reject all answers, because no further connection is made. */
  fail(error: Error): void {
    for (const answer of this.answers.values()) answer.reject(NotConnected.because(error));
    this.answers.clear();
  }
}

/** Return a key for an answer. A page's call may get two of them: a verdict, then an output. */
function keyOf({ toolCallId, approvalId, status }: ToolResultData): string {
  return JSON.stringify([toolCallId, approvalId, status === undefined ? "output" : "verdict"]);
}

function unconfirmed(data: ToolResultData): UnconfirmedAnswer {
  const { toolCallId, approvalId } = data;
  const requestId = newId();
  let [resolve, reject] = [(): void => {}, (_: Error): void => {}];
  const done = new Promise<void>((resolved, rejected) => ([resolve, reject] = [resolved, rejected]));
  const frame = liveFrame("tool_result", { requestId, data });
  return { requestId, toolCallId, approvalId, frame, done, resolve, reject };
}
