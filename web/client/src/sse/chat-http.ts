import type { UIMessage } from "ai";
import { backoffDelay } from "../common/backoff.js";
import { plainHeaders, type ReconnectOptions, type SendOptions } from "../common/chat-requests.js";
import type { Position } from "../common/position.js";
import { resolve } from "../common/resolvable.js";
import type { ResumableSseOptions } from "./resumable-sse-options.js";
import { delayOrOnline, withTimeout } from "./waiting.js";

/** Milliseconds without a byte after which a connection counts as lost: more than two heartbeats of the server. */
const SILENCE = 35_000;
/** Attempts to deliver a stop. */
const STOP_ATTEMPTS = 10;
/** Milliseconds that one attempt to deliver a stop may take. */
const STOP_TIMEOUT = 10_000;

/** The HTTP requests of a chat: send a message, follow a run, stop a run. */
export class ChatHttp<M extends UIMessage> {
  readonly #options: ResumableSseOptions<M>;
  readonly #api: string;

  constructor(options: ResumableSseOptions<M>) {
    this.#options = options;
    this.#api = options.api ?? "/api/chat";
  }

  /** Milliseconds without a byte after which a connection counts as lost. */
  get silence(): number {
    return this.#options.silence ?? SILENCE;
  }

  /** Prepare the request that sends a message. Its body is made once: only an identical request may be repeated. */
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
        ...(prepared?.headers ? plainHeaders(prepared.headers) : await this.#headers(options.headers)),
      },
    });
  }

  /**
   * Follow a run of a chat after a position; without one, the whole message of a named run, or of the run that is
   * active.
   */
  async follow(
    { chatId, headers }: Pick<ReconnectOptions, "chatId" | "headers">, signal: AbortSignal,
    { position, run }: { position?: Position; run?: string | undefined } = {},
  ): Promise<Response> {
    const request = new AbortController();
    const query = run === undefined ? "" : `run=${encodeURIComponent(run)}`;
    const following = this.#fetch(this.#path(chatId, "stream", query), {
      signal: request.signal,
      headers: {
        ...(await this.#headers(headers)),
        ...(position && { "last-event-id": `${position.run}:${position.number}` }),
      },
    });
    return withTimeout(following, this.silence, signal, noResponse(this.silence)).catch((error: unknown) => {
      request.abort();
      throw error;
    });
  }

  /** Stop a run; without its name, the run that is active in the chat. Only a named stop is tried more than once. */
  async stop(chatId: string, run: string | undefined): Promise<void> {
    const { signal } = new AbortController();
    for (let attempt = 1; attempt <= (run === undefined ? 1 : STOP_ATTEMPTS); attempt++) {
      const stopping = withTimeout(this.#stop(chatId, run), STOP_TIMEOUT, signal, noResponse(STOP_TIMEOUT));
      const status = await stopping.catch(() => undefined);
      if (status !== undefined && status < 500) return;
      await delayOrOnline(backoffDelay(attempt, this.#options.backoff), signal);
    }
  }

  async #stop(chatId: string, run: string | undefined): Promise<number> {
    const response = await this.#fetch(this.#path(chatId, "stop"), {
      // keepalive: the request is sent even when the page is being closed.
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
    const own = plainHeaders(await resolve(this.#options.headers));
    return { ...(client && { "x-adkwire-client": client }), ...own, ...plainHeaders(more) };
  }

  #path(chatId: string, action: "stream" | "stop", query = ""): string {
    if (chatId === "." || chatId === "..") {
      throw new Error(`A chat's id must not be "${chatId}": it would change the address.`);
    }
    return appendPath(this.#options.resumeApi ?? this.#api, `/${encodeURIComponent(chatId)}/${action}`, query);
  }
}

function noResponse(ms: number): string {
  return `The server did not respond within ${ms} ms.`;
}

/** Append a path to an address, and a query in front of its own. */
function appendPath(address: string, path: string, query: string): string {
  const [, front = "", own = "", hash = ""] = /^([^?#]*)(?:\?([^#]*))?(#.*)?$/.exec(address) ?? [];
  const both = [query, own].filter((part) => part !== "").join("&");
  return `${front.replace(/\/$/, "")}${path}${both && `?${both}`}${hash}`;
}
