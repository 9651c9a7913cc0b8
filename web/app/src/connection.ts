/** How this page is connected, as a person wants to know it. */
export type Connection =
  /** The browser itself knows of no network. */
  | { state: "offline" }
  | { state: "connecting" }
  | { state: "connected" }
  | { state: "reconnecting"; attempt: number }
  /** The answer goes on behind the last chunk that came: none is missing. */
  | { state: "resumed" }
  | { state: "not-recovered" };
