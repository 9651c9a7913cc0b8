import type { UIMessage } from "ai";
import type { Backoff } from "./backoff.js";
import type { ConnectionState } from "./connection-state.js";
import type { NotRecoveredError } from "./not-recovered-error.js";
import type { PrepareSendMessagesRequest } from "./prepare-send-messages-request.js";
import type { Resolvable } from "./resolvable.js";

/** The options of `ResumableSseTransport`. */
export interface ResumableSseOptions<M extends UIMessage = UIMessage> {
  /** Where messages are sent; `/api/chat` by default. */
  api?: string;
  /** Where runs are resumed and stopped, when that is not under `api`. */
  resumeApi?: string;
  /** Asked anew for every attempt, so that a token can be a fresh one. */
  headers?: Resolvable<Record<string, string> | Headers | undefined>;
  /** More keys for the body of every message. */
  body?: Resolvable<object | undefined>;
  credentials?: Resolvable<RequestCredentials | undefined>;
  fetch?: typeof globalThis.fetch;
  prepareSendMessagesRequest?: PrepareSendMessagesRequest<M>;
  /** The release of the AI SDK in this page, `ai/7.0.169`: the server then uses all that it understands. */
  client?: string;
  /** Hears how the connection is. */
  onState?: (state: ConnectionState) => void;
  /** Hears that the rest of an answer is gone; the chat gets the same as an error. */
  onNotRecovered?: (error: NotRecoveredError) => void;
  /** Whether an abort (`stop()`) also stops the run on the server; true by default. */
  stopOnAbort?: boolean;
  backoff?: Backoff;
  /** Milliseconds without a byte after which a connection counts as dead; 35000 by default, two heartbeats and more. */
  silence?: number;
}
