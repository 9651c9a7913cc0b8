import type { UIMessageChunk } from "ai";
import { type Backoff, backoffDelay } from "../common/backoff.js";
import { parsePosition, type Position } from "../common/position.js";
import { HttpError, NotRecoveredError } from "../errors.js";
import { type SseEvent, SseParser } from "./sse-parser.js";
import { delayOrOnline, withTimeout } from "./waiting.js";

/** The state of the connection over which a run is read. */
export interface ConnectionState {
  /** `connected` at first, `reconnecting` before every further attempt, `resumed` when the run is read again. */
  status: "connected" | "reconnecting" | "resumed";
  chatId: string;
  /** Attempts since the last chunk came; 0 for `connected`. */
  attempt: number;
  /** The run that is read, once it is known. */
  run?: string;
  /** With `reconnecting`: milliseconds until the attempt, unless the network comes back before. */
  delay?: number;
  /** With `reconnecting`: why the connection was lost. */
  error?: Error;
}

/** The requests by which a reader gets a run. */
export interface RunRequests {
  /**
   * Request the run from its first chunk. `isRepeated` when an earlier request may have reached the server; `run` is
   * the run that the earlier request has started, if the server has named it.
   */
  begin(signal: AbortSignal, isRepeated: boolean, run: string | undefined): Promise<Response>;
  /** Request the chunks after a position. */
  resume(signal: AbortSignal, position: Position): Promise<Response>;
}

/** The options of a `RunReader`. */
export interface RunReaderOptions {
  chatId: string;
  /** The run that is requested by its name, if one is; for the error when it is not kept any more. */
  requestedRun?: string | undefined;
  /** Ends the reading when it is aborted. */
  signal: AbortSignal;
  backoff: Backoff;
  /** Milliseconds without a byte after which a connection counts as lost. */
  silence: number;
  onState: (state: ConnectionState) => void;
}

/** The data of the last event of a stream. */
const DONE = "[DONE]";
/** Attempts in a row without a chunk before the reader gives up. */
const ATTEMPTS = 30;
/** Seconds that a reader waits at most because of `Retry-After`. */
const MAX_RETRY_AFTER = 60;
/** Milliseconds to wait for the end of a response after its last event. */
const END_TIMEOUT = 100;
/** Statuses of a server that restarts, or of a proxy that cannot reach it: the same request may succeed later. */
const TRANSIENT = [408, 425, 502, 503, 504];
const NOT_RESTORED = "The network connection to the server was lost and could not be restored.";

/**
 * A reader of one run, from its first chunk to its last, over as many connections as that takes.
 *
 * Every chunk has a position, and the positions of a run only grow. A chunk that is not after the reader's position is
 * a repetition and is skipped. After a lost connection the reader requests the chunks after its position; before the
 * first chunk it repeats its first request instead.
 */
export class RunReader {
  readonly #requests: RunRequests;
  readonly #options: RunReaderOptions;
  #position: Position | undefined;
  #run: string | undefined;
  /** True once a chunk has been read. */
  #hasRead = false;
  /** True when the last chunk was one that ends a run. */
  #hasEnded = false;
  /** True once a response has been opened. */
  #hasOpened = false;
  #attempt = 0;

  constructor(requests: RunRequests, options: RunReaderOptions) {
    this.#requests = requests;
    this.#options = options;
  }

  /** The run that is read, once it is known. */
  get run(): string | undefined {
    return this.#run;
  }

  /** Open a response that carries the run, with as many attempts as that takes; null when no run is active. */
  async open(): Promise<Response | null> {
    for (;;) {
      this.#options.signal.throwIfAborted();
      try {
        const response = await this.#request();
        if (response.status === 204) return null;
        this.#run = this.#position?.run ?? response.headers.get("x-adkwire-run") ?? undefined;
        this.#notify(this.#hasOpened ? "resumed" : "connected");
        this.#hasOpened = true;
        return response;
      } catch (error) {
        this.#options.signal.throwIfAborted();
        await this.#wait(asConnectionLost(error));
      }
    }
  }

  /** Yield the chunks of the run, each once and in order, beginning with those of this response. */
  async *chunks(response: Response): AsyncGenerator<UIMessageChunk, void, void> {
    try {
      let current = response;
      for (;;) {
        const lost = yield* this.#read(current);
        if (lost === undefined) return;
        current = await this.#reopen(lost);
      }
    } catch (error) {
      this.#options.signal.throwIfAborted();
      // Only the end of the response was lost: no chunk follows one that ends a run.
      if (!this.#hasEnded) throw error;
    }
  }

  async #request(): Promise<Response> {
    const { signal, silence } = this.#options;
    const response = await (this.#position
      ? this.#requests.resume(signal, this.#position)
      : this.#requests.begin(signal, this.#attempt > 0, this.#run));
    if (response.status === 410) throw this.#notRecovered();
    if (!response.ok) throw this.#refused(await withTimeout(HttpError.of(response), silence, signal, silent(silence)));
    if (response.status === 204 || isStream(response)) return response;
    await response.body?.cancel();
    const notAStream = new Error("The server's response is not a stream of events. Is the address right?");
    throw this.#hasOpened ? new ConnectionLost(notAStream) : notAStream;
  }

  /** Return the error of a refused request: a lost connection if a later attempt may succeed. */
  #refused(error: HttpError): Error {
    // 429 ends a first request. A reader that comes back to its run waits and tries again instead.
    const isTransient = TRANSIENT.includes(error.status) || (error.status === 429 && this.#attempt > 0);
    return isTransient ? new ConnectionLost(error, error.retryAfter) : error;
  }

  async #reopen(lost: ConnectionLost): Promise<Response> {
    if (this.#hasRead && !this.#position) throw this.#notRecovered();
    await this.#wait(lost);
    const response = await this.open();
    if (response === null) throw this.#notRecovered();
    return response;
  }

  /** Yield the new chunks of one response. Return why it ended, if that was before the end of the run. */
  async *#read(response: Response): AsyncGenerator<UIMessageChunk, ConnectionLost | undefined, void> {
    const body = response.body?.getReader();
    if (!body) throw new Error("The response has no body to read: this platform's `fetch` does not stream responses.");
    const parser = new SseParser();
    try {
      for (;;) {
        const bytes = await this.#bytes(body);
        if (bytes instanceof ConnectionLost) return bytes;
        for (const event of parser.push(bytes)) {
          if (event.data === DONE) {
            await this.#end(body);
            return undefined;
          }
          const chunk = this.#chunkOf(event);
          if (chunk) yield chunk;
        }
      }
    } finally {
      body.cancel().catch(() => undefined);
    }
  }

  /** Read the next bytes of a response, or why there are none. */
  async #bytes(body: ReadableStreamDefaultReader<Uint8Array>): Promise<Uint8Array | ConnectionLost> {
    const { silence, signal } = this.#options;
    try {
      const { done, value } = await withTimeout(body.read(), silence, signal, silent(silence));
      return done ? new ConnectionLost(new Error("The connection ended in the middle of the message.")) : value;
    } catch (error) {
      signal.throwIfAborted();
      return new ConnectionLost(error);
    }
  }

  /** Read the end of the response, which follows at once: only then can the connection be used again. */
  async #end(body: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
    await withTimeout(body.read(), END_TIMEOUT, this.#options.signal, "").catch(() => undefined);
  }

  /** Return the chunk of an event and advance the position; undefined for a repetition. */
  #chunkOf(event: SseEvent): UIMessageChunk | undefined {
    const position = parsePosition(event.id);
    if (position && this.#position) {
      if (position.run !== this.#position.run) throw this.#notRecovered();
      if (position.number <= this.#position.number) return undefined;
    } else if (position && position.number > 0) {
      // A message whose first chunk is missing has no id.
      throw this.#notRecovered();
    }
    const chunk = parseChunk(event.data);
    this.#position = position ?? this.#position;
    this.#run = this.#position?.run ?? this.#run;
    this.#hasRead = true;
    this.#hasEnded = chunk.type === "finish" || chunk.type === "error";
    this.#attempt = 0;
    return chunk;
  }

  /** Wait before the next attempt; throw when there were enough of them. */
  async #wait(lost: ConnectionLost): Promise<void> {
    const { backoff, signal } = this.#options;
    this.#attempt += 1;
    const isOffline = globalThis.navigator?.onLine === false;
    if (this.#attempt > (backoff.attempts ?? ATTEMPTS) && !isOffline) throw giveUp(lost);
    const delay = Math.max(backoffDelay(this.#attempt, backoff), Math.min(lost.retryAfter, MAX_RETRY_AFTER) * 1000);
    this.#notify("reconnecting", { delay, error: lost });
    await delayOrOnline(delay, signal);
  }

  #notify(status: ConnectionState["status"], more: Partial<ConnectionState> = {}): void {
    const run = this.#run === undefined ? {} : { run: this.#run };
    this.#options.onState({ status, chatId: this.#options.chatId, attempt: this.#attempt, ...run, ...more });
  }

  #notRecovered(): NotRecoveredError {
    return new NotRecoveredError(this.#options.chatId, this.#position?.run ?? this.#run ?? this.#options.requestedRun);
  }
}

function silent(ms: number): string {
  return `The server sent nothing for ${ms} ms.`;
}

function isStream(response: Response): boolean {
  return response.headers.get("content-type")?.startsWith("text/event-stream") ?? false;
}

/** Return an error that is worth another attempt as a lost connection; throw any other. */
function asConnectionLost(error: unknown): ConnectionLost {
  if (error instanceof ConnectionLost) return error;
  if (isNetworkError(error)) return new ConnectionLost(error);
  throw error;
}

/** Return the error that the chat gets. It takes a TypeError that names the network for a lost connection. */
function giveUp(lost: ConnectionLost): Error {
  return lost.cause instanceof HttpError ? lost.cause : new TypeError(NOT_RESTORED, { cause: lost.cause });
}

/** A connection that ended before the run did. It is worth another attempt. */
class ConnectionLost extends Error {
  override readonly name = "ConnectionLost";
  /** Seconds that the server asks to wait before the next attempt. */
  readonly retryAfter: number;

  constructor(cause: unknown, retryAfter = 0) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.retryAfter = retryAfter;
  }
}

/**
 * Return true for a request that failed on its way. `fetch` rejects with a TypeError then, but also for an invalid URL.
 */
function isNetworkError(error: unknown): boolean {
  if (error instanceof Error && error.name === "TimeoutError") return true;
  if (!(error instanceof TypeError)) return false;
  const cause: unknown = error.cause;
  return !(cause instanceof Error && "code" in cause && cause.code === "ERR_INVALID_URL");
}

/** Parse the chunk in an event's data. The chat ignores chunks of a type that it does not know. */
function parseChunk(data: string): UIMessageChunk {
  const chunk: unknown = JSON.parse(data);
  if (typeof chunk !== "object" || chunk === null || !("type" in chunk) || typeof chunk.type !== "string") {
    throw new TypeError("The server sent an event that is no chunk of a message: its data has no type.");
  }
  return chunk as UIMessageChunk;
}
