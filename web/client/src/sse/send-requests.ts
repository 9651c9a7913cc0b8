import type { UIMessage } from "ai";
import type { SendOptions } from "../common/chat-requests.js";
import type { Position } from "../common/position.js";
import type { ChatHttp } from "./chat-http.js";
import type { RunRequests } from "./run-reader.js";
import { withTimeout } from "./waiting.js";

/** Milliseconds for the server to accept a message: it gives a slow upload a minute. */
const ACCEPT_TIMEOUT = 65_000;

/**
 * The requests that send one message and read its run. Sending again is safe: the server recognises a message by its id
 * and an answer by its call. A regeneration has neither, so its run is looked for before it is requested again.
 */
export class SendRequests<M extends UIMessage> implements RunRequests {
  readonly #http: ChatHttp<M>;
  readonly #options: SendOptions<M>;
  readonly #runBefore: string | undefined;
  readonly #send: (signal: AbortSignal) => Promise<Response>;
  #sent: Promise<Response> | undefined;

  private constructor(
    http: ChatHttp<M>, options: SendOptions<M>, send: (signal: AbortSignal) => Promise<Response>,
    runBefore: string | undefined,
  ) {
    this.#http = http;
    this.#options = options;
    this.#send = send;
    this.#runBefore = runBefore;
  }

  /**
   * Prepare the requests. `runBefore` is the run that was read before this message, so it cannot be this message's run.
   */
  static async of<M extends UIMessage>(
    http: ChatHttp<M>, options: SendOptions<M>, runBefore: string | undefined,
  ): Promise<SendRequests<M>> {
    return new SendRequests(http, options, await http.prepare(options), runBefore);
  }

  async begin(signal: AbortSignal, isRepeated: boolean, run: string | undefined): Promise<Response> {
    if (!isRepeated || this.#options.trigger !== "regenerate-message") return this.#post(signal);
    if (run !== undefined) return this.#http.follow(this.#options, signal, { position: { run, number: -1 } });
    const response = await this.#http.follow(this.#options, signal);
    const found = response.headers.get("x-adkwire-run");
    if (response.status === 200 && (found === null || found !== this.#runBefore)) return response;
    await response.body?.cancel();
    return this.#post(signal);
  }

  async resume(signal: AbortSignal, position: Position): Promise<Response> {
    return this.#http.follow(this.#options, signal, { position });
  }

  /** True once the server may have the message. */
  get hasLeft(): boolean {
    return this.#sent !== undefined;
  }

  /** Return the run that the last request has started; undefined when the server did not respond. */
  async startedRun(): Promise<string | undefined> {
    const response = await this.#sent?.catch(() => undefined);
    await response?.body?.cancel();
    return response?.headers.get("x-adkwire-run") ?? undefined;
  }

  async #post(signal: AbortSignal): Promise<Response> {
    const request = new AbortController();
    this.#sent = this.#send(request.signal);
    const late = `The server did not accept the message within ${ACCEPT_TIMEOUT} ms.`;
    return withTimeout(this.#sent, ACCEPT_TIMEOUT, signal, late).catch((error: unknown) => {
      // A message that the page aborts is not cancelled: it may have arrived, and then its run has to be stopped by
      // name.
      if (signal.aborted) void this.startedRun();
      else request.abort();
      throw error;
    });
  }
}
