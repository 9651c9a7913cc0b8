import type { ClientToolCall } from "./client-tool-call.js";
import type { ToolChat } from "./tool-chat.js";

/** What `clientTools` returns. */
export interface ClientToolRunner {
  /** Whether a tool is one of its own. */
  runs: (toolName: string) => boolean;
  /** For the chat's option of this name. */
  onToolCall: (event: { toolCall: ClientToolCall }) => void;
  /**
   * Takes the chat that gets the outputs, and runs what waits in it: after a reload, `onToolCall` does not fire for that.
   * May be called as often as one likes, also on every render.
   */
  pickUp: (chat: ToolChat) => void;
}
