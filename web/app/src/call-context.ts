import { createContext } from "react";

interface CallContextValue {
  /** The tools of this agent that run in the browser. */
  browserTools: ReadonlySet<string>;
  onAnswer: (approvalId: string, approved: boolean, reason: string) => void;
  /** Looks whether the server still waits for an answer to this call. */
  onCheck: (toolCallId: string) => void;
}

/** What the cards of a chat's calls need to know and to do. */
export const CallContext = createContext<CallContextValue>({
  browserTools: new Set(), onAnswer: () => undefined, onCheck: () => undefined,
});
