import { createContext } from "react";
import type { Delivery } from "./delivery";

interface CallContextValue {
  /** The tools of this agent that run in the browser. */
  browserTools: ReadonlySet<string>;
  /** Whether answers can be given now: not while the page talks with the model itself. */
  answerable: boolean;
  /** Where the answers are that were given last. */
  delivery: Delivery;
  onAnswer: (approvalId: string, approved: boolean, reason: string) => void;
  /** Looks whether the server still waits for answers. */
  onCheck: () => void;
}

/** What the cards of a chat's calls need to know and to do. */
export const CallContext = createContext<CallContextValue>({
  browserTools: new Set(), answerable: true, delivery: "arrived", onAnswer: () => undefined, onCheck: () => undefined,
});
