import type { ChatStatus } from "ai";
import { createContext } from "react";
import type { Connection } from "../transport/connection";

/** Whether the last message or answer has reached the server. `held-up`: the server cannot be reached. */
export type Delivery = "leaving" | "held-up" | "arrived";

/** Return the delivery state: a request is `submitted` until the first chunk of its response. */
export function deliveryOf(status: ChatStatus, { state }: Connection): Delivery {
  if (status !== "submitted") return "arrived";
  return state === "offline" || state === "reconnecting" ? "held-up" : "leaving";
}

interface CallContextValue {
  /** The tools of this agent that run in the browser. */
  browserTools: ReadonlySet<string>;
  /** Whether calls can be answered: not in Gemini direct. */
  answerable: boolean;
  /** Whether the last answers have reached the server. */
  delivery: Delivery;
  onAnswer: (approvalId: string, approved: boolean, reason: string) => void;
  /** Ask the server whether the calls are still pending. */
  onCheck: () => void;
}

/** What the cards of a chat's calls share. */
export const CallContext = createContext<CallContextValue>({
  browserTools: new Set(), answerable: true, delivery: "arrived", onAnswer: () => undefined, onCheck: () => undefined,
});
