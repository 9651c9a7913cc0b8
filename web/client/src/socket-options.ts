import type { Backoff } from "./backoff.js";
import type { NotRecoveredError } from "./not-recovered-error.js";
import type { SocketNotice } from "./socket-frames.js";
import type { SocketConstructor } from "./socket-like.js";

/** What a page may show of its connection. `idle`: closed because nothing was going on; the next message reopens it. */
export type SocketState = "connecting" | "open" | "reconnecting" | "idle" | "closed";

export type SocketStateDetail = {
  /** Failures in a row so far. */
  attempt: number;
  /** Open requests: those that a new connection takes up again. */
  requests: number;
  /** Why the connection is away. */
  reason?: string;
};

export type ResilientWebSocketOptions = {
  /** The real WebSocket, for example of the `ws` package; Node before 22 has none of its own. */
  WebSocket?: SocketConstructor;
  /** Who we are, for `auth = token`; a function is asked anew for every connection. */
  token?: string | (() => string | PromiseLike<string>);
  /** Headers of the handshake. The `ws` package sends them; a browser has no way to. */
  headers?: Record<string, string | undefined>;
  /** Of the attempts, a first connection gets no more than 8: who has never been connected wants to know. */
  backoff?: Backoff;
  /** Milliseconds that one attempt may take. Default 10000. */
  connectTimeout?: number;
  /** Milliseconds between pings, while the page is visible. Default 5000. */
  pingInterval?: number;
  /** Milliseconds without an answer after which the connection counts as lost. Default 10000. */
  silence?: number;
  onState?: (state: SocketState, detail: SocketStateDetail) => void;
  /**
   * Hears why a request failed, which the official transport is told in words only: a `NotRecoveredError`, or an `HttpError`
   * with the server's `code`.
   */
  onError?: (error: Error) => void;
  /** Hears that the rest of an answer is gone; `onError` does, too. */
  onNotRecovered?: (error: NotRecoveredError) => void;
  onNotice?: (notice: SocketNotice) => void;
  /** Milliseconds from a ping to its answer. */
  onLatency?: (milliseconds: number) => void;
};

/** What has happened on a socket since it was made. */
export type SocketCounters = { reconnects: number; repeated: number; strange: number };
