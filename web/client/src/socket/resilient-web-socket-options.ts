import type { Backoff } from "../common/backoff.js";
import type { NotRecoveredError } from "../errors.js";
import type { SocketConstructor } from "./socket-connection.js";
import type { SocketNotice } from "./socket-frames.js";

/** The state of a socket. `idle`: the server has closed it because it was not used; the next message reopens it. */
export type SocketState = "connecting" | "open" | "reconnecting" | "idle" | "closed";

/** More about a state. */
export type SocketStateDetail = {
  /** Attempts that have failed in a row so far. */
  attempt: number;
  /** Requests that are open: a new connection resumes them. */
  requests: number;
  /** Why there is no connection. */
  reason?: string;
};

/** The options of `resilientWebSocket`. */
export type ResilientWebSocketOptions = {
  /** The WebSocket class to connect with, for example that of `ws`; Node before 22 has none of its own. */
  WebSocket?: SocketConstructor;
  /** The token of the user, for `auth = token`; a function is called anew for every connection. */
  token?: string | (() => string | PromiseLike<string>);
  /** Headers of the handshake. The `ws` package sends them; a browser cannot. */
  headers?: Record<string, string | undefined>;
  /** Waits between attempts. The first connection gets 8 attempts at most, so that a wrong address is reported soon. */
  backoff?: Backoff;
  /** Milliseconds that one attempt to connect may take. Default 10000. */
  connectTimeout?: number;
  /** Milliseconds between pings while the page is visible. Default 5000. */
  pingInterval?: number;
  /** Milliseconds without anything from the server after which the connection counts as lost. Default 10000. */
  silence?: number;
  /** Called when the state changes, and before every further attempt. */
  onState?: (state: SocketState, detail: SocketStateDetail) => void;
  /**
   * Called when a request fails, with a `NotRecoveredError` or an `HttpError` that has the server's `code`. The
   * official transport gets only the text of the failure.
   */
  onError?: (error: Error) => void;
  /** Called when the rest of a message is not kept any more; `onError` is called, too. */
  onNotRecovered?: (error: NotRecoveredError) => void;
  /** Called with a notice that belongs to no request. */
  onNotice?: (notice: SocketNotice) => void;
  /** Called with the milliseconds from a ping to its pong. */
  onLatency?: (milliseconds: number) => void;
};

/** Counts since a socket was made: new connections, frames that came twice, and frames that could not be read. */
export type SocketCounters = { reconnects: number; repeated: number; strange: number };
