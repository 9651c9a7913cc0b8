/** How this page is connected, as a person wants to know it. */
export type Connection =
  /** The browser itself knows of no network. */
  | { state: "offline" }
  | { state: "connecting" }
  | { state: "connected" }
  /** Crowded: the server is there, but has no socket left for this person. */
  | { state: "reconnecting"; attempt: number; crowded?: boolean }
  /** The answer goes on behind the last chunk that came: none is missing. */
  | { state: "resumed" }
  /** It comes by HTTP: the person has more windows than the server has sockets for. */
  | { state: "crowded" }
  | { state: "not-recovered" };
