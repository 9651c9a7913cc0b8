import type { Backoff } from "./backoff.js";
import type { ConnectionState } from "./connection-state.js";

/** How a run is read. */
export interface RunReaderOptions {
  chatId: string;
  /** Ends the reading. */
  signal: AbortSignal;
  backoff: Backoff;
  /** Milliseconds without a byte after which a connection counts as dead. */
  silence: number;
  onState: (state: ConnectionState) => void;
}
