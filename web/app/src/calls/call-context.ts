import type { ChatStatus } from "ai";
import { createContext } from "react";
import type { Connection } from "../transport/connection";

/** How far the newest message, or answer to a call, is on its way. Held up: the server cannot be reached. */
export type Delivery = "leaving" | "held-up" | "arrived";

/** Nothing has come back as long as a request is only submitted. */
export function deliveryOf(status: ChatStatus, { state }: Connection): Delivery {
  if (status !== "submitted") return "arrived";
  return state === "offline" || state === "reconnecting" ? "held-up" : "leaving";
}

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
