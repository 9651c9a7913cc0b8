import type { ChatTransport, UIMessage, UIMessageChunk } from "ai";
import { answersSent } from "./answers-sent.js";
import { ChatHttp } from "./chat-http.js";
import { NotRecoveredError } from "./not-recovered-error.js";
import type { ReconnectOptions } from "./reconnect-options.js";
import type { ResumableSseOptions } from "./resumable-sse-options.js";
import { RunReader } from "./run-reader.js";
import type { RunRequests } from "./run-requests.js";
import type { SendOptions } from "./send-options.js";
import { Sending } from "./sending.js";
import { streamOf } from "./stream-of.js";

/** What is under way in one chat. */
interface ChatState {
  /** How many requests there were, and how many of them reconnects. */
  requests: number;
  reconnects: number;
  /** The last run that was read. */
  run: string | undefined;
  /** Ends a reconnect that has reached no server yet; it tells the chat so when the promise resolves. */
  supersede: ((ended: Promise<void>) => void) | undefined;
}

/** One request of the chat, and how to end it. */
interface Following {
  reader: RunReader;
  /** Reads no more. */
  quit: () => void;
  /** Is over: no abort is heard from now on. */
  release: () => void;
  failed: () => void;
}

/** Who hears of a request. */
interface Listeners {
  ended: () => void;
  failed: () => void;
  stop: (run: string | undefined) => Promise<void>;
}

const nothing = (): void => undefined;

/**
 * A chat transport over HTTP for which a lost connection is no event: `useChat` gets every chunk once and in order,
 * whatever is cut where. Works with AI SDK 6 and 7.
 */
export class ResumableSseTransport<M extends UIMessage = UIMessage> implements ChatTransport<M> {
  /** A reconnect tells the message from its beginning. */
  readonly resumeStreamIsReplay = true;
  readonly #options: ResumableSseOptions<M>;
  readonly #http: ChatHttp<M>;
  readonly #chats = new Map<string, ChatState>();

  constructor(options: ResumableSseOptions<M> = {}) {
    this.#options = options;
    this.#http = new ChatHttp(options);
  }

  /** Sends the newest message, or the answers to calls, and reads what comes of it. */
  async sendMessages(options: SendOptions<M>): Promise<ReadableStream<UIMessageChunk>> {
    const chat = this.#chat(options.chatId);
    const request = ++chat.requests;
    const sending = await Sending.of(this.#http, options, chat.run);
    let ended = nothing;
    chat.supersede?.(new Promise((resolve) => (ended = resolve)));
    const failed = (): void => answersSent.forget(options.messages.at(-1));
    const stop = async (run: string | undefined): Promise<void> => {
      const stopped = run ?? (await sending.started());
      // Without a name, anything would be stopped: also what came after this message.
      if (stopped !== undefined || (sending.left && chat.requests === request)) await this.#http.stop(options.chatId, stopped);
    };
    const following = this.#follow(options.chatId, sending, options.abortSignal, { ended, failed, stop });
    const response = await this.#open(following);
    if (response === null) throw new Error("The server had nothing to answer.");
    return this.#stream(following, response);
  }

  /** Reads the run that is writing in a chat, if there is one. */
  async reconnectToStream(options: ReconnectOptions): Promise<ReadableStream<UIMessageChunk> | null> {
    const chat = this.#chat(options.chatId);
    chat.requests += 1;
    const reconnect = ++chat.reconnects;
    const requests: RunRequests = {
      begin: (signal) => this.#http.follow(options, signal),
      resume: (signal, place) => this.#http.follow(options, signal, place),
    };
    const stop = async (run: string | undefined): Promise<void> => {
      // A chat also aborts a reconnect to make another one, at once. That is no wish to stop anything.
      await new Promise((resolve) => setTimeout(resolve));
      if (run !== undefined && chat.reconnects === reconnect) await this.#http.stop(options.chatId, run);
    };
    const following = this.#follow(options.chatId, requests, options.abortSignal, { ended: nothing, failed: nothing, stop });
    return this.#unlessSuperseded(chat, following);
  }

  /** Resumes, unless a message is sent before there is something to resume: that one brings its own stream. */
  async #unlessSuperseded(chat: ChatState, following: Following): Promise<ReadableStream<UIMessageChunk> | null> {
    let newer: Promise<void> | undefined;
    const supersede = (ended: Promise<void>): void => {
      newer = ended;
      following.quit();
    };
    chat.supersede = supersede;
    try {
      const response = await this.#open(following);
      return response && this.#stream(following, response);
    } catch (error) {
      if (!newer) throw error;
      // The chat takes null for being idle, so it gets that when the newer request is through.
      await newer;
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

  #follow(
    chatId: string, requests: RunRequests, signal: AbortSignal | undefined, { ended, failed, stop }: Listeners,
  ): Following {
    const own = new AbortController();
    const { backoff = {}, onState = nothing, stopOnAbort = true } = this.#options;
    const reader = new RunReader(requests, { chatId, signal: own.signal, backoff, silence: this.#http.silence, onState });
    const abort = (): void => {
      own.abort(signal?.reason);
      release();
      if (stopOnAbort) stop(reader.run).catch(nothing);
    };
    const release = (): void => {
      signal?.removeEventListener("abort", abort);
      const chat = this.#chat(chatId);
      chat.run = reader.run ?? chat.run;
      ended();
    };
    signal?.addEventListener("abort", abort);
    if (signal?.aborted) own.abort(signal.reason);
    return { reader, quit: () => own.abort(), release, failed };
  }

  async #open({ reader, release, failed }: Following): Promise<Response | null> {
    let response: Response | null = null;
    try {
      response = await reader.open();
    } catch (error) {
      failed();
      throw error;
    } finally {
      if (response === null) release();
    }
    return response;
  }

  #stream(following: Following, response: Response): ReadableStream<UIMessageChunk> {
    return streamOf(this.#chunks(following, response), () => {
      following.quit();
      following.release();
    });
  }

  async *#chunks({ reader, release, failed }: Following, response: Response): AsyncGenerator<UIMessageChunk, void, void> {
    try {
      for await (const chunk of reader.chunks(response)) {
        if (chunk.type === "error") failed();
        yield chunk;
      }
    } catch (error) {
      failed();
      if (error instanceof NotRecoveredError) this.#options.onNotRecovered?.(error);
      throw error;
    } finally {
      release();
    }
  }
}
