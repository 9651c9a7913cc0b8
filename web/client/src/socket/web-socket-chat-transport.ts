import type { ChatTransport, UIMessage, UIMessageChunk } from "ai";
import { plainHeaders, type ReconnectOptions, type SendOptions } from "../common/chat-requests.js";
import { newId } from "../common/new-id.js";
import { type Resolvable, resolve } from "../common/resolvable.js";
import { UnreadRuns } from "../common/unread-runs.js";
import { NotRecoveredError } from "../errors.js";
import { answersSent } from "../tools/answers-sent.js";
import { ResilientWebSocket } from "./resilient-web-socket.js";
import { SocketChunkStream } from "./socket-chunk-stream.js";
import { type FrameDetails, type OfficialFrame, readServerFrame } from "./socket-frames.js";
import { type ChatSocket, SocketHandle, socketUrl } from "./socket-handle.js";

/** The headers and body of a request before the page's own functions change them. */
type Defaults = { body: object; headers: Record<string, string> };

/** The result of the page's own functions. */
type Prepared = { body?: object; headers?: HeadersInit };

/** The argument of the page's own functions. */
type PrepareOptions = Defaults & { id: string; requestMetadata: unknown };

/**
 * The options of `WebSocketChatTransport`: those of the official transport of AI SDK 7, and `activeRun` and
 * `onNotRecovered`.
 */
export type WebSocketChatTransportOptions<UI_MESSAGE extends UIMessage> = {
  /** The address of the socket: ws, wss, http, https, or relative to the page. */
  url: string;
  protocols?: string | string[];
  /** Query parameters of the connection. */
  params?: Resolvable<Record<string, string>>;
  /** Headers inside every request frame: a browser cannot send any with the handshake. */
  headers?: Resolvable<Record<string, string> | Headers>;
  /** More data inside every request frame. */
  body?: Resolvable<object>;
  /** The class of the socket. Default `ResilientWebSocket`; in Node 20 `resilientWebSocket({ WebSocket })`. */
  webSocket?: new (url: string | URL, protocols?: string | string[]) => ChatSocket;
  prepareSendMessagesRequest?: (
    options: PrepareOptions & {
      messages: UI_MESSAGE[];
      trigger: "submit-message" | "regenerate-message";
      messageId: string | undefined;
    },
  ) => (Prepared & { messages?: UI_MESSAGE[] }) | PromiseLike<Prepared & { messages?: UI_MESSAGE[] }>;
  prepareReconnectToStreamRequest?: (options: PrepareOptions) => Prepared | PromiseLike<Prepared>;
  /**
   * The run that the history named as active, `active.run`: a reconnect returns its message, also when it has ended
   * since the history was loaded.
   */
  activeRun?: string | undefined;
  /** Called when the rest of a message is not kept any more; the chat gets the same error. */
  onNotRecovered?: (error: NotRecoveredError) => void;
};

type CallOptions = Pick<ReconnectOptions, "chatId" | "headers" | "body" | "metadata">;

/** The `readyState` of an open socket. */
const OPEN = 1;

/**
 * The official WebSocket transport of AI SDK 7, for AI SDK 6: the same options, the same frames, one socket for many
 * requests, opened by the first. It uses a `ResilientWebSocket`, so that a chat does not notice a lost connection.
 */
export class WebSocketChatTransport<UI_MESSAGE extends UIMessage = UIMessage> implements ChatTransport<UI_MESSAGE> {
  /** Tells the chat that a resumed stream begins with the first chunk of its message. */
  readonly resumeStreamIsReplay = true;
  private handle: SocketHandle | undefined;
  /** The streams of open requests, by request id. */
  private readonly streams = new Map<string, SocketChunkStream>();
  private readonly unread: UnreadRuns;

  constructor(private readonly options: WebSocketChatTransportOptions<UI_MESSAGE>) {
    this.unread = new UnreadRuns(options.activeRun);
  }

  /** Send the newest message, or the answers to calls, and return the chunks of the run that it starts. */
  async sendMessages(options: SendOptions<UI_MESSAGE>): Promise<ReadableStream<UIMessageChunk>> {
    const { trigger, messageId, messages, abortSignal } = options;
    this.unread.forget(options.chatId);
    const defaults = await this.defaults(options);
    const prepare = this.options.prepareSendMessagesRequest;
    const prepared = await prepare?.({ ...prepareOptions(options, defaults), messages, trigger, messageId });
    const extra = { trigger, messageId, messages: prepared?.messages ?? messages };
    const frame = { type: "send", ...requestFields(options, defaults, prepared), ...extra };
    const request = await this.request(options.chatId, frame, abortSignal, () => answersSent.forget(messages.at(-1)));
    return request.stream;
  }

  /**
   * Return the chunks of a message from its first one: of the run that is named, was lost or was active in the
   * history, else of the run that is active now; null when none is.
   */
  async reconnectToStream(options: ReconnectOptions): Promise<ReadableStream<UIMessageChunk> | null> {
    const run = this.unread.runFor(options.chatId, options.body);
    const defaults = await this.defaults(run === undefined ? options : { ...options, body: { ...options.body, run } });
    const prepared = await this.options.prepareReconnectToStreamRequest?.(prepareOptions(options, defaults));
    const frame = { type: "resume", ...requestFields(options, defaults, prepared) };
    const request = await this.request(options.chatId, frame, options.abortSignal, () => {});
    return request.response;
  }

  /** Close the socket; open requests fail. A later request opens a new socket. */
  close(): void {
    this.handle?.end(new Error("The WebSocket chat transport was closed."));
  }

  private async defaults(options: CallOptions): Promise<Defaults> {
    const [headers, body] = await Promise.all([resolve(this.options.headers), resolve(this.options.body)]);
    return {
      headers: { ...plainHeaders(headers), ...plainHeaders(options.headers) },
      body: { ...body, ...options.body },
    };
  }

  private async request(
    chatId: string, frame: object, signal: AbortSignal | undefined, failed: () => void,
  ): Promise<SocketChunkStream> {
    const socket = await this.openSocket(signal).catch((error: unknown) => {
      failed();
      throw error;
    });
    const requestId = newId();
    const abort = (): void => this.abort(requestId, socket, signal);
    const request = new SocketChunkStream(chatId, abort, failed);
    this.streams.set(requestId, request);
    signal?.addEventListener("abort", abort, { once: true });
    socket.send(JSON.stringify({ ...frame, requestId }));
    return request;
  }

  private async openSocket(signal: AbortSignal | undefined): Promise<ChatSocket> {
    signal?.throwIfAborted();
    this.handle ??= this.newHandle();
    const socket = await unlessAborted(this.handle.opened, signal);
    signal?.throwIfAborted();
    return socket;
  }

  private abort(requestId: string, socket: ChatSocket, signal: AbortSignal | undefined): void {
    const request = this.streams.get(requestId);
    if (request === undefined) return;
    this.streams.delete(requestId);
    request.fail(abortError(signal));
    if (socket.readyState === OPEN) socket.send(JSON.stringify({ type: "abort", requestId }));
  }

  private newHandle(): SocketHandle {
    const handle = new SocketHandle(() => this.newSocket(), {
      received: (data, details) => this.received(data, details),
      ended: (error) => this.ended(handle, error),
    });
    return handle;
  }

  private async newSocket(): Promise<ChatSocket> {
    const { url, params, protocols, webSocket = ResilientWebSocket } = this.options;
    return new webSocket(socketUrl(url, await resolve(params)), protocols);
  }

  private ended(handle: SocketHandle, error: Error): void {
    if (this.handle !== handle) return;
    this.handle = undefined;
    for (const request of this.streams.values()) {
      this.unread.keep(request.chatId, request.run);
      request.fail(error);
    }
    this.streams.clear();
  }

  private received(data: unknown, { error, run }: FrameDetails): void {
    const frame = readServerFrame(data);
    if (frame.type === "pong" || frame.type === "notice") return;
    const request = this.streams.get(frame.requestId);
    if (request === undefined) return;
    if (!["start", "chunk"].includes(frame.type)) this.streams.delete(frame.requestId);
    request.run = run ?? request.run;
    if (frame.type === "error") this.unread.keep(request.chatId, request.run);
    const isRead = frame.type === "end" || frame.type === "no-active";
    if (isRead || error instanceof NotRecoveredError) this.unread.forget(request.chatId);
    if (error instanceof NotRecoveredError) this.options.onNotRecovered?.(error);
    feed(request, frame, error);
  }
}

function prepareOptions({ chatId, metadata }: CallOptions, defaults: Defaults): PrepareOptions {
  return { ...defaults, id: chatId, requestMetadata: metadata };
}

function requestFields({ chatId, metadata }: CallOptions, defaults: Defaults, prepared: Prepared | undefined): object {
  const headers = prepared?.headers === undefined ? defaults.headers : plainHeaders(prepared.headers);
  return { id: chatId, headers, body: prepared?.body ?? defaults.body, metadata };
}

function feed(request: SocketChunkStream, frame: OfficialFrame, error: Error | undefined): void {
  switch (frame.type) {
    case "start":
      return request.begin();
    case "chunk":
      return request.chunk(frame.chunk as UIMessageChunk);
    case "end":
      return request.end();
    case "no-active":
      return request.endEmpty();
    case "error":
      return request.fail(error ?? new Error(frame.errorText));
  }
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
