import type { ToolPart } from "../tools/tool-part.js";
import type { CallSettled, ToolResultData, TurnFrame } from "./live-frames.js";

/** A call in the chat, with the id of its message. */
export type ChatCall = { messageId: string; part: ToolPart };

/** What a live transport does with the chat that is attached to it. */
export interface LiveAttachment {
  /** Show a turn that the server has begun, once the chat has read the streams before it. */
  showTurn(turn: TurnFrame, before: Promise<unknown>): void;
  /** Resume a run that is active: no stream of the chat reads it. */
  resume(run: string): void;
  /** Replace the transcript in the user's message: a transcript has all that the user has said in the turn so far. */
  setTranscript(userMessageId: string, text: string): void;
  /** Show the question as approved, if it was approved elsewhere before the chat has read it. */
  showApproval(approvalId: string): void;
  /** Show a call that was answered elsewhere, or sealed. */
  showSettled(call: CallSettled): void;
  /** Shorten the last text of a message to the part that was played. */
  keepText(messageId: string, kept: string): void;
  /**
   * Show an answer that was not given through the chat. Returns the function to call if the server refuses the answer.
   */
  showAnswer(data: ToolResultData): (error: Error) => void;
  /** Return the id of the approval request of a call, if it waits for a verdict. */
  approvalIdOf(toolCallId: string): string | undefined;
  /** Return the calls of a message; of the last message by default. */
  calls(messageId?: string): ChatCall[];
}
