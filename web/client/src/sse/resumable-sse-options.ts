import type { UIMessage } from "ai";
import type { Backoff } from "../common/backoff.js";
import type { Resolvable } from "../common/resolvable.js";
import type { NotRecoveredError } from "../errors.js";
import type { ConnectionState } from "./run-reader.js";

interface Prepared {
  body: object;
  headers?: HeadersInit;
  credentials?: RequestCredentials;
  api?: string;
}

/** A function that makes the request for a message, as in `DefaultChatTransport`. */
export type PrepareSendMessagesRequest<M extends UIMessage> = (options: {
  id: string;
  messages: M[];
  trigger: "submit-message" | "regenerate-message";
  messageId: string | undefined;
  requestMetadata: unknown;
  body: Record<string, unknown> | undefined;
  headers: HeadersInit | undefined;
  credentials: RequestCredentials | undefined;
  api: string;
}) => Prepared | PromiseLike<Prepared>;

/** The options of `ResumableSseTransport`. */
export interface ResumableSseOptions<M extends UIMessage = UIMessage> {
  /** The address that messages are posted to; `/api/chat` by default. */
  api?: string;
  /** The address under which runs are resumed and stopped; `api` by default. */
  resumeApi?: string;
  /** Headers of every request; a function is called anew for every attempt, so that a token can be a fresh one. */
  headers?: Resolvable<Record<string, string> | Headers | undefined>;
  /** More keys for the body of every message. */
  body?: Resolvable<object | undefined>;
  credentials?: Resolvable<RequestCredentials | undefined>;
  fetch?: typeof globalThis.fetch;
  prepareSendMessagesRequest?: PrepareSendMessagesRequest<M>;
  /**
   * The release of the AI SDK in this page, such as `ai/7.0.169`: the server then sends all chunks that it understands.
   */
  client?: string;
  /**
   * The run that the history named as active, `active.run`: a reconnect returns its message, also when it has ended
   * since the history was loaded.
   */
  activeRun?: string | undefined;
  /** Called when the connection to a run is made, lost or made again. */
  onState?: (state: ConnectionState) => void;
  /** Called when the rest of a message is not kept any more; the chat gets the same error. */
  onNotRecovered?: (error: NotRecoveredError) => void;
  /** True when an abort (`stop()`) also stops the run on the server; true by default. */
  stopOnAbort?: boolean;
  backoff?: Backoff;
  /**
   * Milliseconds without a byte after which a connection counts as lost; 35000 by default, more than two heartbeats.
   */
  silence?: number;
}
