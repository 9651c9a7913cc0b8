import type { ChatTransport, UIMessage, UIMessageChunk } from "ai";
import type { ReconnectOptions, SendOptions } from "../common/chat-requests.js";
import { streamOf } from "../common/stream-of.js";
import { UnreadRuns } from "../common/unread-runs.js";
import { NotRecoveredError } from "../errors.js";
import { answersSent } from "../tools/answers-sent.js";
import { ChatHttp } from "./chat-http.js";
import type { ResumableSseOptions } from "./resumable-sse-options.js";
import { RunReader, type RunRequests } from "./run-reader.js";
import { SendRequests } from "./send-requests.js";

/** What the transport knows of one chat. */
interface ChatState {
  /** Number of requests so far, reconnects included. */
  requests: number;
  /** Number of reconnects so far. */
  reconnects: number;
  /** The last run that was read. */
  run: string | undefined;
  /**
   * Set while a reconnect has not reached the server: gives it up because a message is sent. The reconnect returns to
   * its chat when the promise resolves, which is when the message's own request is over.
   */
  supersede: ((messageEnded: Promise<void>) => void) | undefined;
}

/** A run that is being read for a chat. */
interface ActiveRead {
  chatId: string;
  reader: RunReader;
  /** Aborted when the chat or the transport stops the reading. */
  signal: AbortSignal;
  /** Stop reading. */
  cancel: () => void;
  /** Stop listening for an abort, because the reading is over. */
  release: () => void;
  /** Report that the request has failed. */
  failed: () => void;
}

/** What to call when a read ends, when it fails and when the chat aborts it. */
interface ReadCallbacks {
  ended: () => void;
  failed: () => void;
  stop: (run: string | undefined) => Promise<void>;
}

const ignore = (): void => undefined;

/**
 * A chat transport over HTTP that recovers from lost connections: `useChat` gets every chunk once and in order,
 * wherever a connection is cut. For AI SDK 6 and 7.
 */
export class ResumableSseTransport<M extends UIMessage = UIMessage> implements ChatTransport<M> {
  /** Tells the chat that a resumed stream begins with the first chunk of its message. */
  readonly resumeStreamIsReplay = true;
  readonly #options: ResumableSseOptions<M>;
  readonly #http: ChatHttp<M>;
  readonly #unread: UnreadRuns;
  readonly #chats = new Map<string, ChatState>();

  constructor(options: ResumableSseOptions<M> = {}) {
    this.#options = options;
    this.#http = new ChatHttp(options);
    this.#unread = new UnreadRuns(options.activeRun);
  }

  /** Send the newest message, or the answers to calls, and return the chunks of the run that it starts. */
  async sendMessages(options: SendOptions<M>): Promise<ReadableStream<UIMessageChunk>> {
    const chat = this.#chat(options.chatId);
    const request = ++chat.requests;
    this.#unread.forget(options.chatId);
    const requests = await SendRequests.of(this.#http, options, chat.run);
    let ended = ignore;
    chat.supersede?.(new Promise((resolve) => (ended = resolve)));
    const failed = (): void => answersSent.forget(options.messages.at(-1));
    const stop = async (run: string | undefined): Promise<void> => {
      const started = run ?? (await requests.startedRun());
      // A stop without a name stops whatever is active, so it must not be sent when a later request may have started a
      // run.
      const isLatest = requests.hasLeft && chat.requests === request;
      if (started !== undefined || isLatest) await this.#http.stop(options.chatId, started);
    };
    const read = this.#read(options.chatId, requests, options.abortSignal, { ended, failed, stop });
    const response = await this.#open(read);
    if (response === null) throw new Error("The server accepted the message but started no run (status 204).");
    return this.#stream(read, response);
  }

  /**
   * Return the chunks of a message from its first one: of the run that is named, was lost or was active in the
   * history, else of the run that is active now; null when none is.
   */
  async reconnectToStream(options: ReconnectOptions): Promise<ReadableStream<UIMessageChunk> | null> {
    const chat = this.#chat(options.chatId);
    chat.requests += 1;
    const reconnect = ++chat.reconnects;
    const requestedRun = this.#unread.runFor(options.chatId, options.body);
    const requests: RunRequests = {
      begin: (signal) => this.#http.follow(options, signal, { run: requestedRun }),
      resume: (signal, position) => this.#http.follow(options, signal, { position }),
    };
    const stop = async (run: string | undefined): Promise<void> => {
      // A chat also aborts a reconnect to make another one at once, as React does in strict mode. That must not stop
      // the run.
      await new Promise((resolve) => setTimeout(resolve));
      if (run !== undefined && chat.reconnects === reconnect) await this.#http.stop(options.chatId, run);
    };
    const callbacks = { ended: ignore, failed: ignore, stop };
    const read = this.#read(options.chatId, requests, options.abortSignal, callbacks, requestedRun);
    return this.#unlessSuperseded(chat, read);
  }

  /**
   * Open a reconnect, or return null if a message is sent before the server has responded: it has a stream of its own.
   */
  async #unlessSuperseded(chat: ChatState, read: ActiveRead): Promise<ReadableStream<UIMessageChunk> | null> {
    let message: Promise<void> | undefined;
    const supersede = (messageEnded: Promise<void>): void => {
      message = messageEnded;
      read.cancel();
    };
    chat.supersede = supersede;
    try {
      const response = await this.#open(read);
      return response && this.#stream(read, response);
    } catch (error) {
      if (!message) throw error;
      // On null the chat becomes `ready`, so it must not get that before the message's request is over.
      await message;
      return null;
    } finally {
      if (chat.supersede === supersede) chat.supersede = undefined;
    }
  }

  #chat(id: string): ChatState {
    const chat = this.#chats.get(id) ?? { requests: 0, reconnects: 0, run: undefined, supersede: undefined };
    this.#chats.set(id, chat);
    return chat;
  }

  #read(
    chatId: string, requests: RunRequests, signal: AbortSignal | undefined, { ended, failed, stop }: ReadCallbacks,
    requestedRun?: string,
  ): ActiveRead {
    const own = new AbortController();
    const { backoff = {}, onState = ignore, stopOnAbort = true } = this.#options;
    const { silence } = this.#http;
    const reader = new RunReader(requests, { chatId, requestedRun, signal: own.signal, backoff, silence, onState });
    const abort = (): void => {
      own.abort(signal?.reason);
      release();
      if (stopOnAbort) stop(reader.run).catch(ignore);
    };
    const release = (): void => {
      signal?.removeEventListener("abort", abort);
      const chat = this.#chat(chatId);
      chat.run = reader.run ?? chat.run;
      ended();
    };
    signal?.addEventListener("abort", abort);
    if (signal?.aborted) own.abort(signal.reason);
    return { chatId, reader, signal: own.signal, cancel: () => own.abort(), release, failed };
  }

  async #open({ chatId, reader, release, failed }: ActiveRead): Promise<Response | null> {
    let response: Response | null = null;
    try {
      response = await reader.open();
      if (response === null) this.#unread.forget(chatId);
    } catch (error) {
      failed();
      this.#reportNotRecovered(chatId, error);
      throw error;
    } finally {
      if (response === null) release();
    }
    return response;
  }

  #stream(read: ActiveRead, response: Response): ReadableStream<UIMessageChunk> {
    return streamOf(this.#chunks(read, response), () => {
      read.cancel();
      read.release();
    });
  }

  async *#chunks(read: ActiveRead, response: Response): AsyncGenerator<UIMessageChunk, void, void> {
    const { chatId, reader, signal, release, failed } = read;
    try {
      for await (const chunk of reader.chunks(response)) {
        if (chunk.type === "error") failed();
        yield chunk;
      }
      this.#unread.forget(chatId);
    } catch (error) {
      failed();
      if (!signal.aborted) this.#unread.keep(chatId, reader.run);
      this.#reportNotRecovered(chatId, error);
      throw error;
    } finally {
      release();
    }
  }

  #reportNotRecovered(chatId: string, error: unknown): void {
    if (!(error instanceof NotRecoveredError)) return;
    this.#unread.forget(chatId);
    this.#options.onNotRecovered?.(error);
  }
}
