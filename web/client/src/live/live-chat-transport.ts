import type { ChatTransport, UIMessage, UIMessageChunk } from "ai";
import { plainHeaders, type ReconnectOptions, type SendOptions } from "../common/chat-requests.js";
import { newId } from "../common/new-id.js";
import { resolve } from "../common/resolvable.js";
import { UnreadRuns } from "../common/unread-runs.js";
import { NotConnected, NotRecoveredError } from "../errors.js";
import { type FrameDetails, readServerFrame, socketError } from "../socket/socket-frames.js";
import { answersSent } from "../tools/answers-sent.js";
import type { LiveAttachment } from "./live-attachment.js";
import { LiveCalls } from "./live-calls.js";
import type { LiveChatTransportOptions } from "./live-chat-transport-options.js";
import { LiveChunkStream } from "./live-chunk-stream.js";
import { LiveConnection } from "./live-connection.js";
import type { LiveFrame, LiveInterruption, LiveReady, ToolResultData, TurnFrame } from "./live-frames.js";
import { LivePlayback } from "./live-playback.js";
import type { AudioInput, LiveDropped, VideoFrame } from "./live-uplink.js";
import type { MediaFrame } from "./media-frame.js";

type CallOptions = Pick<ReconnectOptions, "chatId" | "headers" | "body"> & { abortSignal?: AbortSignal | undefined };

const NOT_ATTACHED = "The server has begun a turn and no chat is attached to show it: call attach(chat, transport).";

/**
 * A `ChatTransport` for a live chat: typed messages, voice, and turns that the server begins, over one socket that
 * reconnects by itself. The chat has to be attached: `attach(chat, transport)`.
 */
export class LiveChatTransport<M extends UIMessage = UIMessage> implements ChatTransport<M> {
  /** Tells the chat that a resumed stream begins with the first chunk of its message. */
  readonly resumeStreamIsReplay = true;
  private attachment: LiveAttachment | undefined;
  /** True once the server was ready on the current socket. */
  private hasBeenReady = false;
  /** The streams of requests and turns that have not ended, by request id. */
  private readonly open = new Map<string, LiveChunkStream>();
  /** Those of turns that the server has begun and that the chat does not read yet. */
  private readonly unread = new Map<string, LiveChunkStream>();
  /** Streams that have ended and that the chat still reads. */
  private readonly reading = new Set<Promise<void>>();
  private readonly unreadRuns: UnreadRuns;
  private readonly connection: LiveConnection;
  private readonly calls: LiveCalls;
  private readonly playback: LivePlayback;

  constructor(private readonly options: LiveChatTransportOptions) {
    this.unreadRuns = new UnreadRuns(options.activeRun);
    this.calls = new LiveCalls(
      options,
      (data) => void this["~sendAnswer"](data).catch((error: Error) => this["~reportError"](error)),
      (messageId, toolCallId) => this.isShown(messageId, toolCallId),
    );
    this.playback = new LivePlayback(options, (frame) => this.connection.post(frame));
    this.connection = new LiveConnection(options, {
      frame: (frame) => this.receivedLive(frame),
      media: (frame) => this.receivedMedia(frame),
      received: (data, details) => this.received(data, details),
      ended: (error) => this.ended(error),
    });
  }

  /** Audio chunks and pictures that were not sent because there was no connection. */
  get dropped(): LiveDropped {
    return { ...this.connection.uplink.dropped };
  }

  /** Send the newest message, or the answers to calls, and return the chunks of the run that it starts. */
  async sendMessages(options: SendOptions<M>): Promise<ReadableStream<UIMessageChunk>> {
    const { trigger, messageId, messages, abortSignal, metadata } = options;
    const turn = this.readTurn(options);
    if (turn) return turn.stream;
    this.unreadRuns.forget(this.options.chat);
    const fields = { type: "send", trigger, messageId, messages: messagesFrom(messages, messageId), metadata };
    const frame = await this.requestFrame(options, fields);
    const request = await this.request(frame, abortSignal, () => answersSent.forget(messages.at(-1)));
    request.begin();
    return request.stream;
  }

  /**
   * Return the chunks of a message from its first one: of the run that is named, was lost or was active in the
   * history, else of the run that is active now; null when none is.
   */
  async reconnectToStream(options: ReconnectOptions): Promise<ReadableStream<UIMessageChunk> | null> {
    const turn = this.readTurn(options);
    if (turn) return turn.stream;
    const body = { ...options.body, run: this.unreadRuns.runFor(options.chatId, options.body) };
    const frame = await this.requestFrame({ ...options, body }, { type: "resume", metadata: options.metadata });
    // A page that closes the transport meanwhile gets null and no error.
    const request = await this.request(frame, options.abortSignal).catch(unlessNotConnected);
    return request?.response ?? null;
  }

  /** Interrupt the agent: in this page at once, then on the server. */
  async interrupt(reason: "user_abort" | "timeout" | "error" = "user_abort"): Promise<void> {
    this.playback.interrupt();
    await this.connection.interrupt(reason);
  }

  /** Begin to speak, by a button (`ptt`) or because a voice was detected (`vad`). Interrupts the agent. */
  async startAudio(source: "ptt" | "vad" = "ptt"): Promise<void> {
    this.playback.interrupt();
    await this.connection.startAudio(source);
  }

  /** Stop speaking. */
  async stopAudio(): Promise<void> {
    await this.connection.stopAudio();
  }

  /** Send audio of the microphone, 16 kHz mono s16. Return false when it was dropped because there is no connection. */
  sendAudioChunk(chunk: AudioInput): boolean {
    return this.connection.uplink.audio(chunk);
  }

  /** Send a JPEG or PNG of the camera or the screen. Resolves with false when it was dropped. */
  async sendVideoFrame(frame: VideoFrame): Promise<boolean> {
    return this.connection.uplink.video(frame);
  }

  /**
   * Answer a call: with its output, or with a verdict if there is a `status`; `result` is then the reason of a
   * rejection. Resolves when the server has the answer, over as many connections as that takes; rejects with the
   * server's refusal or with `NotConnected`.
   */
  async sendToolResult(toolCallId: string, result?: unknown, status?: "approved" | "rejected"): Promise<void> {
    const approvalId = status && this.attachment?.approvalIdOf(toolCallId);
    const data = { ...resultData(toolCallId, result, status), ...(approvalId !== undefined && { approvalId }) };
    const refused = this.isStreaming ? this.attachment?.showAnswer(data) : undefined;
    await this["~sendAnswer"](data).catch((error: Error) => {
      refused?.(error);
      throw error;
    });
  }

  /**
   * End the conversation and close the socket. Messages that are being written end here. A later message reopens it.
   */
  close(): void {
    this.connection.close();
  }

  /**
   * Close the socket without ending the conversation: it goes on for the server's grace, and a later message or
   * `resumeStream` rejoins it.
   */
  disconnect(): void {
    this.connection.disconnect();
  }

  /** @internal */
  "~attach"(attachment: LiveAttachment): void {
    this.attachment = attachment;
  }

  /** @internal Send an answer to a call. It is not shown in the chat. */
  async "~sendAnswer"(data: ToolResultData): Promise<void> {
    await this.connection.answer(data);
  }

  /** @internal Send an answer to a call while a message is being written. Otherwise the chat sends it by itself. */
  async "~sendAnswerIfStreaming"(data: ToolResultData): Promise<void> {
    if (this.isStreaming || (await this.willStream())) await this["~sendAnswer"](data);
  }

  /** @internal Return true for a turn that the server has begun and that the chat does not read yet. */
  "~isUnread"(requestId: string): boolean {
    return this.unread.has(requestId);
  }

  /** @internal Return true while this message is being written. */
  "~isWriting"(messageId: string): boolean {
    return [...this.open.values()].some((stream) => stream.messageId === messageId);
  }

  /** @internal Run a task in every open stream, when the chat has read the chunks that have come so far. */
  "~whenRead"(task: () => void): void {
    for (const stream of this.open.values()) stream.whenRead(task);
  }

  /** @internal Report an error that the chat does not report. */
  "~reportError"(error: Error): void {
    this.options.onError?.(error);
  }

  /** True while a message is being written: the server takes answers to calls meanwhile. */
  private get isStreaming(): boolean {
    return [...this.open.values()].some(({ hasBegun }) => hasBegun);
  }

  /** Resolve with true when one of the open requests finds an active run. */
  private async willStream(): Promise<boolean> {
    const responses = [...this.open.values()].map(({ response }) => response.catch(() => null));
    return (await Promise.all(responses)).some((stream) => stream !== null);
  }

  private isShown(messageId: string, toolCallId: string): boolean {
    return this.attachment?.calls(messageId).some(({ part }) => part.toolCallId === toolCallId) ?? false;
  }

  private async requestFrame({ chatId, headers, body }: CallOptions, fields: object): Promise<object> {
    const { chat } = this.options;
    if (chatId !== chat) throw new Error(`This live transport is for the chat ${chat}, not for ${chatId}.`);
    // The chat repeats the body of its last request, which may name a turn, when it sends answers by itself.
    const more = { ...(await resolve(this.options.body)), ...body, liveTurn: undefined };
    return { ...fields, id: chatId, headers: plainHeaders(headers), body: more };
  }

  /** Return the stream of the turn that the body of a request names, if the chat does not read it yet. */
  private readTurn({ body, abortSignal }: CallOptions): LiveChunkStream | undefined {
    const { liveTurn: requestId = "" } = (body ?? {}) as { liveTurn?: string };
    const stream = this.unread.get(requestId);
    if (!this.unread.delete(requestId)) return undefined;
    abortSignal?.addEventListener("abort", () => this.abort(requestId, abortSignal), { once: true });
    return stream;
  }

  private async request(frame: object, signal: AbortSignal | undefined, failed?: () => void): Promise<LiveChunkStream> {
    signal?.throwIfAborted();
    const socket = await this.connection.open().catch((error: unknown) => {
      failed?.();
      throw error;
    });
    signal?.throwIfAborted();
    const requestId = newId();
    const stream = this.openStream(requestId, failed);
    signal?.addEventListener("abort", () => this.abort(requestId, signal), { once: true });
    socket.send(JSON.stringify({ ...frame, requestId }));
    return stream;
  }

  private openStream(requestId: string, failed?: () => void): LiveChunkStream {
    const stream = new LiveChunkStream(() => this.abort(requestId), failed);
    this.open.set(requestId, stream);
    return stream;
  }

  private abort(requestId: string, signal?: AbortSignal): void {
    const stream = this.open.get(requestId);
    if (stream === undefined) return;
    this.open.delete(requestId);
    this.unread.delete(requestId);
    this.playback.interrupt();
    const aborted = new DOMException("The chat has aborted the request.", "AbortError");
    stream.fail(signal?.reason instanceof Error ? signal.reason : aborted);
    this.connection.abort(requestId);
  }

  private ended(error: Error): void {
    this.hasBeenReady = false;
    const isClosed = error instanceof NotConnected;
    for (const stream of this.open.values()) {
      this.unreadRuns.keep(this.options.chat, stream.run);
      isClosed ? stream.abandon() : stream.fail(error);
    }
    this.open.clear();
    this.unread.clear();
    this.playback.stop();
    if (!isClosed) this["~reportError"](error);
  }

  private receivedLive(frame: LiveFrame): boolean {
    switch (frame.type) {
      case "ready":
        this.ready(frame);
        return true;
      case "turn":
        this.turnBegun(frame);
        return true;
      case "user-transcript":
        this.attachment?.setTranscript(frame.userMessageId, frame.text);
        this.options.onTranscript?.({ messageId: frame.userMessageId, text: frame.text, final: frame.final });
        return true;
      case "state":
        this.options.onState?.(frame.state);
        return true;
      case "interrupted":
        this.interrupted(frame);
        return true;
      case "call-settled":
        this.connection.answers.confirm(frame.toolCallId, frame.approvalId);
        this.attachment?.showSettled(frame);
        return true;
      case "failed":
        return this.failed(frame);
    }
  }

  private ready({ chat, run, generation, audio, resumed }: LiveReady): void {
    this.playback.connected(generation, resumed);
    this.options.onConnect?.({ chat, run, generation, audio, resumed });
    this.reportLoadedCalls();
    // A turn that began while there was no connection was not announced.
    if (this.hasBeenReady && run !== null && this.open.size === 0) this.attachment?.resume(run);
    this.hasBeenReady = true;
  }

  /** Report the calls that wait in the last message of the chat, which may have come with the history. */
  private reportLoadedCalls(): void {
    for (const { messageId, part } of this.attachment?.calls() ?? []) {
      if (!this.connection.answers.has(part.toolCallId)) this.calls.loaded(messageId, part);
    }
  }

  private turnBegun(turn: TurnFrame): void {
    if (this.open.has(turn.requestId)) return;
    if (this.attachment === undefined) return this["~reportError"](new Error(NOT_ATTACHED));
    const stream = this.openStream(turn.requestId);
    stream.messageId = turn.messageId;
    stream.begin();
    this.unread.set(turn.requestId, stream);
    this.connection.adopt(turn.requestId);
    this.attachment.showTurn(turn, Promise.all(this.reading));
  }

  private interrupted({ requestId, generation, kept }: LiveInterruption): void {
    this.playback.dropBefore(generation);
    const stream = this.open.get(requestId);
    if (kept !== undefined && stream) stream.whenTextEnded(() => this.attachment?.keepText(stream.messageId, kept));
    this.options.onInterruptRequest?.({ requestId, generation, ...(kept !== undefined && { kept }) });
  }

  /** Handle an error frame. Return false for the error of a request: that goes to the chat through its stream. */
  private failed(frame: LiveFrame & { type: "failed" }): boolean {
    const error = socketError(frame.text, frame.code || undefined, this.options.chat, undefined);
    if (this.connection.answers.refuse(frame, error)) return true;
    if (frame.requestId !== undefined) return false;
    this["~reportError"](error);
    return true;
  }

  private receivedMedia(frame: MediaFrame): void {
    if (frame.kind === "pcm") this.playback.receive(frame);
  }

  private received(data: unknown, { error, run }: FrameDetails): void {
    const frame = readServerFrame(data);
    if (frame.type === "pong" || frame.type === "notice") return;
    const stream = this.open.get(frame.requestId);
    if (stream === undefined) return;
    stream.run = run ?? stream.run;
    switch (frame.type) {
      case "start":
        return stream.begin();
      case "chunk":
        return this.receivedChunk(stream, frame.chunk as UIMessageChunk);
      case "end":
        this.unreadRuns.forget(this.options.chat);
        return this.endStream(frame.requestId, stream, () => stream.end());
      case "no-active":
        this.unreadRuns.forget(this.options.chat);
        return this.endStream(frame.requestId, stream, () => stream.endEmpty());
      case "error":
        this.unreadRuns.keep(this.options.chat, stream.run);
        if (error instanceof NotRecoveredError) this.unreadRuns.forget(this.options.chat);
        return this.endStream(frame.requestId, stream, () => stream.fail(error ?? new Error(frame.errorText)));
    }
  }

  private receivedChunk(stream: LiveChunkStream, chunk: UIMessageChunk): void {
    const { answers } = this.connection;
    stream.chunk(chunk);
    this.calls.chunk(chunk, stream);
    if (chunk.type === "tool-approval-request") stream.whenRead(() => this.attachment?.showApproval(chunk.approvalId));
    if (chunk.type === "tool-input-available") answers.confirm(chunk.toolCallId);
    if (chunk.type.startsWith("tool-output-")) answers.confirmAll((chunk as { toolCallId: string }).toolCallId);
  }

  private endStream(requestId: string, stream: LiveChunkStream, end: () => void): void {
    this.open.delete(requestId);
    end();
    this.reading.add(stream.drained);
    void stream.drained.then(() => this.reading.delete(stream.drained));
  }
}

function unlessNotConnected(error: Error): undefined {
  if (!(error instanceof NotConnected)) throw error;
}

function resultData(toolCallId: string, result: unknown, status: "approved" | "rejected" | undefined): ToolResultData {
  if (status === undefined) return { toolCallId, result: result ?? null };
  if (status === "rejected") return { toolCallId, status, ...(typeof result === "string" && { reason: result }) };
  return { toolCallId, status, ...(result !== undefined && { result }) };
}

/** Return the messages that the server reads: the last one, or the one with this id and those after it. */
function messagesFrom<M extends UIMessage>(messages: M[], messageId: string | undefined): M[] {
  const index = messageId === undefined ? -1 : messages.findIndex(({ id }) => id === messageId);
  return index < 0 ? messages.slice(-1) : messages.slice(index);
}
