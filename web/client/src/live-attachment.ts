import type { CallSettled, ToolResultData, TurnFrame } from "./live-frames.js";
import type { ToolPart } from "./tool-part.js";

/** What a live transport asks of the chat that is attached to it. */
export interface LiveAttachment {
  /** Show a turn that the server has begun, once what is being read now is read. */
  turn(turn: TurnFrame, before: Promise<unknown>): void;
  /** Read on with what runs: nobody does. */
  resume(): void;
  /** What the user is heard to say. */
  transcript(userMessageId: string, text: string, final: boolean): void;
  /** The chat has read a question; somebody else may have approved it already. */
  asked(approvalId: string): void;
  /** A call was answered, or taken back. */
  settled(call: CallSettled): void;
  /** The last text of a message is not what was written but what was heard. */
  keep(messageId: string, kept: string): void;
  /** Show an answer that is given past the chat; returns what is to be told of a refusal. */
  answered(data: ToolResultData): (error: Error) => void;
  /** The question about a call, if it waits for an answer. */
  questionOf(toolCallId: string): string | undefined;
  /** The calls of a message; of the last one by default. */
  calls(messageId?: string): { messageId: string; part: ToolPart }[];
}
