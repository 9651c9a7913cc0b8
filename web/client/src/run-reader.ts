import type { UIMessageChunk } from "ai";
import { backoffDelay } from "./backoff-delay.js";
import type { ConnectionState } from "./connection-state.js";
import { Cut } from "./cut.js";
import { HttpError } from "./http-error.js";
import { isNetworkError } from "./is-network-error.js";
import { NotRecoveredError } from "./not-recovered-error.js";
import { parseChunk } from "./parse-chunk.js";
import { parsePlace } from "./parse-place.js";
import { pause } from "./pause.js";
import type { Place } from "./place.js";
import type { RunReaderOptions } from "./run-reader-options.js";
import type { RunRequests } from "./run-requests.js";
import type { SseEvent } from "./sse-event.js";
import { SseParser } from "./sse-parser.js";
import { within } from "./within.js";

const DONE = "[DONE]";
const ATTEMPTS = 30;
const MAX_WAIT = 60;
const SILENT = "Nothing was heard from the server.";
const LOST = "The network connection to the server was lost, and it did not come back.";

/**
 * Reads one run to its end, over as many connections as that takes.
 *
 * Every chunk has a place, and the places of a run only grow. What is not behind the last place was told already; after a
 * cut the server is asked for what is behind it. As long as nothing was told, the first request is simply made again.
 */
export class RunReader {
  readonly #requests: RunRequests;
  readonly #options: RunReaderOptions;
  #place: Place | undefined;
  #run: string | undefined;
  #told = false;
  #over = false;
  #opened = false;
  #attempt = 0;

  constructor(requests: RunRequests, options: RunReaderOptions) {
    this.#requests = requests;
    this.#options = options;
  }

  /** The run that is read, once it is known. */
  get run(): string | undefined {
    return this.#run;
  }

  /** A response that carries the run, however many attempts it takes; null when nothing runs. */
  async open(): Promise<Response | null> {
    for (;;) {
      this.#options.signal.throwIfAborted();
      try {
        const response = await this.#request();
        if (response.status === 204) return null;
        this.#run = this.#place?.run ?? response.headers.get("x-adkwire-run") ?? undefined;
        this.#tell(this.#opened ? "resumed" : "connected");
        this.#opened = true;
        return response;
      } catch (error) {
        this.#options.signal.throwIfAborted();
        await this.#wait(asCut(error));
      }
    }
  }

  /** The chunks of the run, each once and in order. */
  async *chunks(response: Response): AsyncGenerator<UIMessageChunk, void, void> {
    try {
      let current = response;
      for (;;) {
        const cut = yield* this.#read(current);
        if (cut === undefined) return;
        current = await this.#reopen(cut);
      }
    } catch (error) {
      this.#options.signal.throwIfAborted();
      // Only the goodbye was lost: nothing comes behind a chunk that ends a run.
      if (!this.#over) throw error;
    }
  }

  async #request(): Promise<Response> {
    const { signal, silence } = this.#options;
    const response = await (this.#place
      ? this.#requests.resume(signal, this.#place)
      : this.#requests.begin(signal, this.#attempt > 0, this.#run));
    if (response.status === 410) throw this.#notRecovered();
    if (!response.ok) throw this.#refused(await within(HttpError.of(response), silence, signal, SILENT));
    if (response.status === 204 || isStream(response)) return response;
    await response.body?.cancel();
    const other = new Error("The server did not answer with a stream of events. Is the address right?");
    throw this.#opened ? new Cut(other) : other;
  }

  /** Whoever is already in the middle of something waits until it is his turn again. */
  #refused(error: HttpError): Error {
    const passes = error.passes || (error.status === 429 && this.#attempt > 0);
    return passes ? new Cut(error, error.retryAfter) : error;
  }

  async #reopen(cut: Cut): Promise<Response> {
    if (this.#told && !this.#place) throw this.#notRecovered();
    await this.#wait(cut);
    const response = await this.open();
    if (response === null) throw this.#notRecovered();
    return response;
  }

  /** Tells what one connection brings; returns why it ended too early, if it did. */
  async *#read(response: Response): AsyncGenerator<UIMessageChunk, Cut | undefined, void> {
    const body = response.body?.getReader();
    if (!body) throw new Error("This platform cannot read a response while it comes.");
    const parser = new SseParser();
    try {
      for (;;) {
        const bytes = await this.#bytes(body);
        if (bytes instanceof Cut) return bytes;
        for (const event of parser.push(bytes)) {
          if (event.data === DONE) {
            await this.#end(body);
            return undefined;
          }
          const chunk = this.#take(event);
          if (chunk) yield chunk;
        }
      }
    } finally {
      body.cancel().catch(() => undefined);
    }
  }

  async #bytes(body: ReadableStreamDefaultReader<Uint8Array>): Promise<Uint8Array | Cut> {
    const { silence, signal } = this.#options;
    try {
      const { done, value } = await within(body.read(), silence, signal, SILENT);
      return done ? new Cut(new Error("The connection ended in the middle of the answer.")) : value;
    } catch (error) {
      signal.throwIfAborted();
      return new Cut(error);
    }
  }

  /** The end of the response follows at once: with it read, the connection can be used again. */
  async #end(body: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
    await within(body.read(), 100, this.#options.signal, "").catch(() => undefined);
  }

  #take(event: SseEvent): UIMessageChunk | undefined {
    const place = parsePlace(event.id);
    if (place && this.#place) {
      if (place.run !== this.#place.run) throw this.#notRecovered();
      if (place.number <= this.#place.number) return undefined;
    } else if (place && place.number > 0) {
      // Without its beginning a message has no id.
      throw this.#notRecovered();
    }
    const chunk = parseChunk(event.data);
    this.#place = place ?? this.#place;
    this.#run = this.#place?.run ?? this.#run;
    this.#told = true;
    this.#over = chunk.type === "finish" || chunk.type === "error";
    this.#attempt = 0;
    return chunk;
  }

  async #wait(cut: Cut): Promise<void> {
    const { backoff, signal } = this.#options;
    this.#attempt += 1;
    const isOffline = globalThis.navigator?.onLine === false;
    if (this.#attempt > (backoff.attempts ?? ATTEMPTS) && !isOffline) throw giveUp(cut);
    const delay = Math.max(backoffDelay(this.#attempt, backoff), Math.min(cut.retryAfter, MAX_WAIT) * 1000);
    this.#tell("reconnecting", { delay, error: cut });
    await pause(delay, signal);
  }

  #tell(status: ConnectionState["status"], more: Partial<ConnectionState> = {}): void {
    const run = this.#run === undefined ? {} : { run: this.#run };
    this.#options.onState({ status, chatId: this.#options.chatId, attempt: this.#attempt, ...run, ...more });
  }

  #notRecovered(): NotRecoveredError {
    return new NotRecoveredError(this.#options.chatId, this.#place?.run ?? this.#run);
  }
}

function isStream(response: Response): boolean {
  return response.headers.get("content-type")?.startsWith("text/event-stream") ?? false;
}

/** What is worth another attempt; anything else is thrown. */
function asCut(error: unknown): Cut {
  if (error instanceof Cut) return error;
  if (isNetworkError(error)) return new Cut(error);
  throw error;
}

/** Chats take a TypeError that names the network for a lost connection, and offer to resume. */
function giveUp(cut: Cut): Error {
  return cut.cause instanceof HttpError ? cut.cause : new TypeError(LOST, { cause: cut.cause });
}
