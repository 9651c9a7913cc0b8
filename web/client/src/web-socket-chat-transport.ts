import type { ChatTransport, UIMessage, UIMessageChunk } from "ai";
import { answersSent } from "./answers-sent.js";
import { newId } from "./new-id.js";
import { NotRecoveredError } from "./not-recovered-error.js";
import { ResilientWebSocket } from "./resilient-web-socket.js";
import type { Resolvable } from "./resolvable.js";
import { resolve } from "./resolve.js";
import { SocketAnswer } from "./socket-answer.js";
import { type OfficialFrame, readServerFrame } from "./socket-frames.js";
import { type ChatSocket, SocketOpening } from "./socket-opening.js";
import { socketUrl } from "./socket-url.js";

type Basis = { body: object; headers: Record<string, string> };

type Prepared = { body?: object; headers?: HeadersInit };

type Preparing = Basis & { id: string; requestMetadata: unknown };

/** The options of the official transport of AI SDK 7, with the same meaning, and `onNotRecovered`. */
export type WebSocketChatTransportOptions<UI_MESSAGE extends UIMessage> = {
  /** Where the socket is: ws, wss, http, https, or relative to the page. */
  url: string;
  protocols?: string | string[];
  /** Query parameters of the connection. */
  params?: Resolvable<Record<string, string>>;
  /** Headers inside every request frame: a browser cannot send any with the handshake. */
  headers?: Resolvable<Record<string, string> | Headers>;
  /** More data inside every request frame. */
  body?: Resolvable<object>;
  /** The socket's class. Default `ResilientWebSocket`; in Node 20 `resilientWebSocket({ WebSocket })`. */
  webSocket?: new (url: string | URL, protocols?: string | string[]) => ChatSocket;
  prepareSendMessagesRequest?: (
    options: Preparing & {
      messages: UI_MESSAGE[];
      trigger: "submit-message" | "regenerate-message";
      messageId: string | undefined;
    },
  ) => (Prepared & { messages?: UI_MESSAGE[] }) | PromiseLike<Prepared & { messages?: UI_MESSAGE[] }>;
  prepareReconnectToStreamRequest?: (options: Preparing) => Prepared | PromiseLike<Prepared>;
  /** Hears that the rest of an answer is gone; the chat gets the same as an error. */
  onNotRecovered?: (error: NotRecoveredError) => void;
};

type SendOptions<UI_MESSAGE extends UIMessage> = Parameters<ChatTransport<UI_MESSAGE>["sendMessages"]>[0];
/** Early versions of AI SDK 6 pass no signal. */
type ResumeOptions<UI_MESSAGE extends UIMessage> = Parameters<ChatTransport<UI_MESSAGE>["reconnectToStream"]>[0] & {
  abortSignal?: AbortSignal | undefined;
};
type CallOptions = Pick<SendOptions<UIMessage>, "chatId" | "headers" | "body" | "metadata">;

const OPEN = 1;

/**
 * The official WebSocket transport of AI SDK 7 for AI SDK 6: the same options, the same frames, one lazy socket for
 * many requests. On a `ResilientWebSocket`, so that a chat sees no drop.
 */
export class WebSocketChatTransport<UI_MESSAGE extends UIMessage = UIMessage> implements ChatTransport<UI_MESSAGE> {
  /** A resumed answer comes whole, from its first chunk. */
  readonly resumeStreamIsReplay = true;
  private connection: SocketOpening | undefined;
  private readonly answers = new Map<string, SocketAnswer>();

  constructor(private readonly options: WebSocketChatTransportOptions<UI_MESSAGE>) {}

  async sendMessages(options: SendOptions<UI_MESSAGE>): Promise<ReadableStream<UIMessageChunk>> {
    const { trigger, messageId, messages, abortSignal } = options;
    const basis = await this.basis(options);
    const prepare = this.options.prepareSendMessagesRequest;
    const prepared = await prepare?.({ ...preparing(options, basis), messages, trigger, messageId });
    const extra = { trigger, messageId, messages: prepared?.messages ?? messages };
    const content = { type: "send", ...frame(options, basis, prepared), ...extra };
    const answer = await this.request(content, abortSignal, () => answersSent.forget(messages.at(-1)));
    return answer.stream;
  }

  async reconnectToStream(options: ResumeOptions<UI_MESSAGE>): Promise<ReadableStream<UIMessageChunk> | null> {
    const basis = await this.basis(options);
    const prepared = await this.options.prepareReconnectToStreamRequest?.(preparing(options, basis));
    const content = { type: "resume", ...frame(options, basis, prepared) };
    const answer = await this.request(content, options.abortSignal, () => {});
    return answer.response;
  }

  /** Close the socket and fail what is open. A later request opens a new one. */
  close(): void {
    this.connection?.end(new Error("The WebSocket chat transport was closed."));
  }

  private async basis(options: CallOptions): Promise<Basis> {
    const [headers, body] = await Promise.all([resolve(this.options.headers), resolve(this.options.body)]);
    return {
      headers: { ...plain(headers), ...plain(options.headers) },
      body: { ...body, ...options.body },
    };
  }

  private async request(content: object, signal: AbortSignal | undefined, failed: () => void): Promise<SocketAnswer> {
    const socket = await this.ready(signal).catch((error: unknown) => {
      failed();
      throw error;
    });
    const requestId = newId();
    const stop = (): void => this.abort(requestId, socket, signal);
    const answer = new SocketAnswer(stop, failed);
    this.answers.set(requestId, answer);
    signal?.addEventListener("abort", stop, { once: true });
    socket.send(JSON.stringify({ ...content, requestId }));
    return answer;
  }

  private async ready(signal: AbortSignal | undefined): Promise<ChatSocket> {
    signal?.throwIfAborted();
    const socket = await unlessAborted(this.socket(), signal);
    signal?.throwIfAborted();
    return socket;
  }

  private abort(requestId: string, socket: ChatSocket, signal: AbortSignal | undefined): void {
    const answer = this.answers.get(requestId);
    if (answer === undefined) return;
    this.answers.delete(requestId);
    answer.fail(abortError(signal));
    if (socket.readyState === OPEN) socket.send(JSON.stringify({ type: "abort", requestId }));
  }

  private socket(): Promise<ChatSocket> {
    this.connection ??= this.connect();
    return this.connection.opened;
  }

  private connect(): SocketOpening {
    const opening = new SocketOpening(() => this.open(), {
      received: (data, error) => this.received(data, error),
      ended: (error) => this.ended(opening, error),
    });
    return opening;
  }

  private async open(): Promise<ChatSocket> {
    const { url, params, protocols, webSocket = ResilientWebSocket } = this.options;
    return new webSocket(socketUrl(url, await resolve(params)), protocols);
  }

  private ended(opening: SocketOpening, error: Error): void {
    if (this.connection !== opening) return;
    this.connection = undefined;
    for (const answer of this.answers.values()) answer.fail(error);
    this.answers.clear();
  }

  private received(data: unknown, error: Error | undefined): void {
    const frame = readServerFrame(data);
    if (frame.type === "pong" || frame.type === "notice") return;
    const answer = this.answers.get(frame.requestId);
    if (answer === undefined) return;
    if (!["start", "chunk"].includes(frame.type)) this.answers.delete(frame.requestId);
    if (error instanceof NotRecoveredError) this.options.onNotRecovered?.(error);
    feed(answer, frame, error);
  }
}

function preparing({ chatId, metadata }: CallOptions, basis: Basis): Preparing {
  return { ...basis, id: chatId, requestMetadata: metadata };
}

function frame({ chatId, metadata }: CallOptions, basis: Basis, prepared: Prepared | undefined): object {
  const headers = prepared?.headers === undefined ? basis.headers : plain(prepared.headers);
  return { id: chatId, headers, body: prepared?.body ?? basis.body, metadata };
}

function feed(answer: SocketAnswer, frame: OfficialFrame, error: Error | undefined): void {
  switch (frame.type) {
    case "start":
      return answer.begin();
    case "chunk":
      return answer.chunk(frame.chunk as UIMessageChunk);
    case "end":
      return answer.end();
    case "no-active":
      return answer.nothing();
    case "error":
      return answer.fail(error ?? new Error(frame.errorText));
  }
}

/** The names as the official transport writes them: in lower case. */
function plain(headers: HeadersInit | undefined): Record<string, string> {
  return Object.fromEntries(new Headers(headers));
}

function abortError(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason;
  return reason instanceof Error ? reason : new DOMException("The chat request was aborted.", "AbortError");
}

async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  const listening = new AbortController();
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(abortError(signal)), { signal: listening.signal });
  });
  return Promise.race([promise, aborted]).finally(() => listening.abort());
}
