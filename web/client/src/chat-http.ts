import type { UIMessage } from "ai";
import { appendPath } from "./append-path.js";
import { backoffDelay } from "./backoff-delay.js";
import { pause } from "./pause.js";
import type { Place } from "./place.js";
import type { ReconnectOptions } from "./reconnect-options.js";
import { resolve } from "./resolve.js";
import type { ResumableSseOptions } from "./resumable-sse-options.js";
import type { SendOptions } from "./send-options.js";
import { within } from "./within.js";

/** Two heartbeats and more. */
const SILENCE = 35_000;
const STOP_ATTEMPTS = 10;
const STOP_PATIENCE = 10_000;
const NO_ANSWER = "The server did not answer.";

/** The requests of a chat: send, follow, stop. */
export class ChatHttp<M extends UIMessage> {
  readonly #options: ResumableSseOptions<M>;
  readonly #api: string;

  constructor(options: ResumableSseOptions<M>) {
    this.#options = options;
    this.#api = options.api ?? "/api/chat";
  }

  /** Milliseconds without a byte after which a connection is dead. */
  get silence(): number {
    return this.#options.silence ?? SILENCE;
  }

  /** The request that sends a message. Its body is made once: only the very same request may be made again. */
  async prepare(options: SendOptions<M>): Promise<(signal: AbortSignal) => Promise<Response>> {
    const { trigger, chatId: id, messageId, messages } = options;
    const extra = { ...(await resolve(this.#options.body)), ...options.body };
    const prepared = await this.#options.prepareSendMessagesRequest?.({
      id, messages, trigger, messageId, requestMetadata: options.metadata, body: extra, api: this.#api,
      headers: await this.#headers(options.headers), credentials: await resolve(this.#options.credentials),
    });
    const body = JSON.stringify(prepared?.body ?? { ...extra, id, messages, trigger, messageId });
    return async (signal) => this.#fetch(prepared?.api ?? this.#api, {
      method: "POST", body, signal, ...(prepared?.credentials && { credentials: prepared.credentials }),
      headers: {
        "content-type": "application/json",
        ...(prepared?.headers ? plain(prepared.headers) : await this.#headers(options.headers)),
      },
    });
  }

  /** Follows what runs in a chat: behind a place, or from its beginning. */
  async follow(
    { chatId, headers }: Pick<ReconnectOptions, "chatId" | "headers">, signal: AbortSignal, place?: Place,
  ): Promise<Response> {
    const request = new AbortController();
    const following = this.#fetch(this.#path(chatId, "stream"), {
      signal: request.signal,
      headers: { ...(await this.#headers(headers)), ...(place && { "last-event-id": `${place.run}:${place.number}` }) },
    });
    return within(following, this.silence, signal, NO_ANSWER).catch((error: unknown) => {
      request.abort();
      throw error;
    });
  }

  /** Stops a run; without its name, whatever runs in the chat. Only a named one is worth waiting for the network. */
  async stop(chatId: string, run: string | undefined): Promise<void> {
    const { signal } = new AbortController();
    for (let attempt = 1; attempt <= (run === undefined ? 1 : STOP_ATTEMPTS); attempt++) {
      const status = await within(this.#stop(chatId, run), STOP_PATIENCE, signal, NO_ANSWER).catch(() => undefined);
      if (status !== undefined && status < 500) return;
      await pause(backoffDelay(attempt, this.#options.backoff), signal);
    }
  }

  async #stop(chatId: string, run: string | undefined): Promise<number> {
    const response = await this.#fetch(this.#path(chatId, "stop"), {
      // It leaves even when the page does.
      method: "POST", body: JSON.stringify({ run }), keepalive: true,
      headers: { "content-type": "application/json", ...(await this.#headers(undefined)) },
    });
    await response.text();
    return response.status;
  }

  async #fetch(address: string, init: RequestInit): Promise<Response> {
    const credentials = await resolve(this.#options.credentials);
    const fetch = this.#options.fetch ?? globalThis.fetch;
    return fetch(address, { ...(credentials && { credentials }), ...init });
  }

  async #headers(more: HeadersInit | undefined): Promise<Record<string, string>> {
    const { client } = this.#options;
    return { ...(client && { "x-adkwire-client": client }), ...plain(await resolve(this.#options.headers)), ...plain(more) };
  }

  #path(chatId: string, what: string): string {
    if (chatId === "." || chatId === "..") throw new Error("A chat's id must not be a dot or two.");
    return appendPath(this.#options.resumeApi ?? this.#api, `/${encodeURIComponent(chatId)}/${what}`);
  }
}

function plain(headers: HeadersInit | undefined): Record<string, string> {
  return Object.fromEntries(new Headers(headers).entries());
}
