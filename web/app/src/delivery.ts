import type { ChatStatus } from "ai";
import type { Connection } from "./connection";

/** How far the newest message, or answer to a call, is on its way. Held up: the server cannot be reached. */
export type Delivery = "leaving" | "held-up" | "arrived";

/** Nothing has come back as long as a request is only submitted. */
export function deliveryOf(status: ChatStatus, { state }: Connection): Delivery {
  if (status !== "submitted") return "arrived";
  return state === "offline" || state === "reconnecting" ? "held-up" : "leaving";
}
