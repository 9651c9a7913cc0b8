import type { ToolResultData, TurnFrame } from "./live-frames.js";

/** What a live transport asks of the chat that is attached to it. */
export interface LiveAttachment {
  /** Show a turn that the server has begun, once what is being read now is read. */
  turn(turn: TurnFrame, before: Promise<unknown>): void;
  /** Read on with what runs: nobody does. */
  resume(): void;
  /** What the user is heard to say. */
  transcript(userMessageId: string, text: string, final: boolean): void;
  /** The chat has read that a call asks; somebody else may have approved it already. */
  asked(toolCallId: string): void;
  /** A call was answered, or taken back. */
  settled(toolCallId: string, state: string): void;
  /** The last text of a message is not what was written but what was heard. */
  keep(messageId: string, kept: string): void;
  /** Show an answer that was given past the chat. */
  answered(data: ToolResultData): void;
}
