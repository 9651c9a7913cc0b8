import type { UIMessage } from "ai";
import type { ChatHttp } from "./chat-http.js";
import type { Place } from "./place.js";
import type { RunRequests } from "./run-requests.js";
import type { SendOptions } from "./send-options.js";
import { within } from "./within.js";

/** Milliseconds for a message to be taken: the server gives a slow upload a minute. */
const PATIENCE = 65_000;

/**
 * How one message is sent, also again: the server knows it by its id, and answers by their calls. A regeneration is known
 * only while it runs, or by its name: that one is looked for first.
 */
export class Sending<M extends UIMessage> implements RunRequests {
  readonly #http: ChatHttp<M>;
  readonly #options: SendOptions<M>;
  readonly #before: string | undefined;
  readonly #send: (signal: AbortSignal) => Promise<Response>;
  #sent: Promise<Response> | undefined;

  private constructor(
    http: ChatHttp<M>, options: SendOptions<M>, send: (signal: AbortSignal) => Promise<Response>, before: string | undefined,
  ) {
    this.#http = http;
    this.#options = options;
    this.#send = send;
    this.#before = before;
  }

  /** `before` is the run that was read before this message: it cannot be the one that answers it. */
  static async of<M extends UIMessage>(
    http: ChatHttp<M>, options: SendOptions<M>, before: string | undefined,
  ): Promise<Sending<M>> {
    return new Sending(http, options, await http.prepare(options), before);
  }

  async begin(signal: AbortSignal, again: boolean, run: string | undefined): Promise<Response> {
    if (!again || this.#options.trigger !== "regenerate-message") return this.#post(signal);
    if (run !== undefined) return this.#http.follow(this.#options, signal, { run, number: -1 });
    const response = await this.#http.follow(this.#options, signal);
    const found = response.headers.get("x-adkwire-run");
    if (response.status === 200 && (found === null || found !== this.#before)) return response;
    await response.body?.cancel();
    return this.#post(signal);
  }

  async resume(signal: AbortSignal, place: Place): Promise<Response> {
    return this.#http.follow(this.#options, signal, place);
  }

  /** Whether the server may have the message. */
  get left(): boolean {
    return this.#sent !== undefined;
  }

  /** The run that the last request was answered with; undefined when no answer came. */
  async started(): Promise<string | undefined> {
    const response = await this.#sent?.catch(() => undefined);
    await response?.body?.cancel();
    return response?.headers.get("x-adkwire-run") ?? undefined;
  }

  async #post(signal: AbortSignal): Promise<Response> {
    const request = new AbortController();
    this.#sent = this.#send(request.signal);
    return within(this.#sent, PATIENCE, signal, "The server did not answer.").catch((error: unknown) => {
      // A message that is no longer wanted is not taken back: it may have arrived, and then its run has to be known.
      if (signal.aborted) void this.started();
      else request.abort();
      throw error;
    });
  }
}
