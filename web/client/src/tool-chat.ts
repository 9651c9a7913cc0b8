import type { Message } from "./message.js";
import type { ToolOutput } from "./tool-output.js";

/** What is needed of a chat: a `Chat`, or what `useChat` returns. */
export interface ToolChat {
  readonly messages: readonly Message[];
  readonly status: string;
  addToolOutput(output: ToolOutput): unknown;
}
