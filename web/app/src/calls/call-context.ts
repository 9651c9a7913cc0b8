import type { ChatStatus } from "ai";
import { createContext } from "react";
import type { Connection } from "../transport/connection";
import type { ToolPart } from "../transport/tool-part";
import type { CallAnswer } from "./answers";

/** Whether the last message or answer has reached the server. `held-up`: the server cannot be reached. */
export type Delivery = "leaving" | "held-up" | "arrived";

/** Return the delivery state: a request is `submitted` until the first chunk of its response. */
export function deliveryOf(status: ChatStatus, { state }: Connection): Delivery {
  if (status !== "submitted") return "arrived";
  return state === "offline" || state === "reconnecting" ? "held-up" : "leaving";
}

/** The place of a call among those of its step that look the same. */
export interface Twin {
  number: number;
  of: number;
}

interface CallContextValue {
  /** The tools of this agent that run in the browser. */
  browserTools: ReadonlySet<string>;
  /** The JSON schemas of the tools' arguments. */
  schemas: ReadonlyMap<string, unknown>;
  /** The calls of the last step that look like another one of it. */
  twins: ReadonlyMap<string, Twin>;
  /** Whether calls can be answered: not in Gemini direct. */
  answerable: boolean;
  /** Whether the last answers have reached the server. */
  delivery: Delivery;
  /** Answer a question. Rejects with what the server says about an answer that it does not take. */
  onAnswer: (call: ToolPart, answer: CallAnswer) => Promise<void>;
  /** Return whether a call whose outcome is unknown may be run again. */
  isRetryable: (call: ToolPart) => Promise<boolean>;
  /** Run a call again whose outcome is unknown. */
  onRetry: (call: ToolPart) => Promise<void>;
  /** Ask the server whether the calls are still pending. */
  onCheck: () => void;
}

/** What the cards of a chat's calls share. */
export const CallContext = createContext<CallContextValue>({
  browserTools: new Set(), schemas: new Map(), twins: new Map(), answerable: true, delivery: "arrived",
  onAnswer: () => Promise.resolve(), isRetryable: () => Promise.resolve(false), onRetry: () => Promise.resolve(),
  onCheck: () => undefined,
});
