/** What a transport tells of its connection to the run it follows. */
export interface ConnectionState {
  /** `connected` at first, `reconnecting` before every further attempt, `resumed` when the run is followed again. */
  status: "connected" | "reconnecting" | "resumed";
  chatId: string;
  /** How many attempts were made since something last came; 0 for `connected`. */
  attempt: number;
  /** The run that is followed, once it is known. */
  run?: string;
  /** With `reconnecting`: milliseconds until the attempt, unless the network comes back before. */
  delay?: number;
  /** With `reconnecting`: what went wrong. */
  error?: Error;
}
