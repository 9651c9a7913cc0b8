import type { ChatTransport, UIMessage, UIMessageChunk } from "ai";
import { answersSent } from "./answers-sent.js";
import { LiveAnswer } from "./live-answer.js";
import type { LiveAttachment } from "./live-attachment.js";
import { LiveCalls } from "./live-calls.js";
import type { LiveChatTransportOptions } from "./live-chat-transport-options.js";
import type { LiveFrame, LiveInterruption, LiveReady, ToolResultData, TurnFrame } from "./live-frames.js";
import { LiveLine } from "./live-line.js";
import { LiveSound } from "./live-sound.js";
import type { AudioInput, LiveDropped, VideoFrame } from "./live-uplink.js";
import type { MediaFrame } from "./media-frame.js";
import { newId } from "./new-id.js";
import { NotConnected } from "./not-connected.js";
import type { ReconnectOptions } from "./reconnect-options.js";
import { resolve } from "./resolve.js";
import type { SendOptions } from "./send-options.js";
import { socketError } from "./socket-error.js";
import { readServerFrame } from "./socket-frames.js";

type Asking = Pick<ReconnectOptions, "chatId" | "headers" | "body"> & { abortSignal?: AbortSignal | undefined };

const UNATTACHED = "The server has begun a turn and there is no chat to show it: attach(chat, transport).";

/**
 * A `ChatTransport` for a live chat: typed messages, voice, and turns that the server begins, over one socket that comes
 * back by itself. Its chat has to be attached: `attach(chat, transport)`.
 */
export class LiveChatTransport<M extends UIMessage = UIMessage> implements ChatTransport<M> {
  /** A resumed answer comes whole, from its first chunk. */
  readonly resumeStreamIsReplay = true;
  private attachment: LiveAttachment | undefined;
  private hasBeenReady = false;
  private readonly open = new Map<string, LiveAnswer>();
  /** Turns of the server that the chat has not yet asked for. */
  private readonly begun = new Map<string, LiveAnswer>();
  /** Answers that have come whole and that the chat still reads. */
  private readonly reading = new Set<Promise<void>>();
  private readonly line: LiveLine;
  private readonly calls: LiveCalls;
  private readonly sound: LiveSound;

  constructor(private readonly options: LiveChatTransportOptions) {
    this.calls = new LiveCalls(
      options,
      (data) => void this["~answer"](data).catch((error: Error) => this["~failed"](error)),
      (messageId, toolCallId) => this.attachment?.calls(messageId).some(({ part }) => part.toolCallId === toolCallId) ?? false,
    );
    this.sound = new LiveSound(options, (frame) => this.line.post(frame));
    this.line = new LiveLine(options, {
      frame: (frame) => this.heard(frame),
      media: (frame) => this.media(frame),
      received: (data, error) => this.received(data, error),
      ended: (error) => this.ended(error),
    });
  }

  /** Sound and pictures that could not leave, since the connection was away. */
  get dropped(): LiveDropped {
    return { ...this.line.uplink.dropped };
  }

  async sendMessages(options: SendOptions<M>): Promise<ReadableStream<UIMessageChunk>> {
    const { trigger, messageId, messages, abortSignal, metadata } = options;
    const begun = this.claim(options);
    if (begun) return begun.stream;
    const content = { type: "send", trigger, messageId, messages: since(messages, messageId), metadata };
    const frame = await this.frame(options, content);
    const answer = await this.request(frame, abortSignal, () => answersSent.forget(messages.at(-1)));
    answer.begin();
    return answer.stream;
  }

  async reconnectToStream(options: ReconnectOptions): Promise<ReadableStream<UIMessageChunk> | null> {
    const begun = this.claim(options);
    if (begun) return begun.stream;
    const frame = await this.frame(options, { type: "resume", metadata: options.metadata });
    // Who closes the transport meanwhile wants nothing of what runs.
    const answer = await this.request(frame, options.abortSignal).catch(unlessClosed);
    return answer?.response ?? null;
  }

  /** End what is being said: here at once, then on the server. */
  async interrupt(reason: "user_abort" | "timeout" | "error" = "user_abort"): Promise<void> {
    this.sound.hush();
    await this.line.interrupt(reason);
  }

  /** The user begins to speak: by a button (`ptt`), or as heard (`vad`). Ends what is being said. */
  async startAudio(source: "ptt" | "vad" = "ptt"): Promise<void> {
    this.sound.hush();
    await this.line.startAudio(source);
  }

  /** The user has spoken. */
  async stopAudio(): Promise<void> {
    await this.line.stopAudio();
  }

  /** Sound of the microphone, 16 kHz mono s16. False: the connection is away, so it was dropped, and counted. */
  sendAudioChunk(chunk: AudioInput): boolean {
    return this.line.uplink.audio(chunk);
  }

  /** A JPEG or PNG of the camera or the screen. False: it was dropped, and counted. */
  async sendVideoFrame(frame: VideoFrame): Promise<boolean> {
    return this.line.uplink.video(frame);
  }

  /**
   * Answer a call: its output, or with a status whether it may be executed; the text beside `rejected` is the reason.
   * Resolves when the server has it, over as many connections as that takes, and rejects with its refusal or `NotConnected`.
   */
  async sendToolResult(toolCallId: string, result?: unknown, status?: "approved" | "rejected"): Promise<void> {
    const approvalId = status && this.attachment?.questionOf(toolCallId);
    const data = { ...resultData(toolCallId, result, status), ...(approvalId !== undefined && { approvalId }) };
    const refused = this["~isStreaming"] ? this.attachment?.answered(data) : undefined;
    await this["~answer"](data).catch((error: Error) => {
      refused?.(error);
      throw error;
    });
  }

  /** End the live run and the socket; what is being written ends as far as it has come. A later message opens a new one. */
  close(): void {
    this.line.close();
  }

  /** @internal */
  "~attach"(attachment: LiveAttachment): void {
    this.attachment = attachment;
  }

  /** @internal Send an answer to a call without showing it. */
  async "~answer"(data: ToolResultData): Promise<void> {
    await this.line.answer(data);
  }

  /** @internal Send an answer to a call beside the answer that is being read. When none is, the chat sends it by itself. */
  async "~tell"(data: ToolResultData): Promise<void> {
    if (this["~isStreaming"] || (await this.isFound())) await this["~answer"](data);
  }

  /** @internal Whether an answer is on its way: the server takes verdicts beside it. */
  get "~isStreaming"(): boolean {
    return [...this.open.values()].some(({ hasBegun }) => hasBegun);
  }

  /** @internal Whether a turn of the server is still to be shown. */
  "~hasBegun"(requestId: string): boolean {
    return this.begun.has(requestId);
  }

  /** @internal Whether a message is being written. */
  "~isWriting"(messageId: string): boolean {
    return [...this.open.values()].some((answer) => answer.messageId === messageId);
  }

  /** @internal Do something in the midst of the answers that are being read, as far as they have come. */
  "~whenRead"(task: () => void): void {
    for (const answer of this.open.values()) answer.whenRead(task);
  }

  /** @internal Tell what went wrong where no chat hears of it. */
  "~failed"(error: Error): void {
    this.options.onError?.(error);
  }

  /** Whether there is an answer that the chat is looking for. */
  private async isFound(): Promise<boolean> {
    const sought = [...this.open.values()].map(({ response }) => response.catch(() => null));
    return (await Promise.all(sought)).some((stream) => stream !== null);
  }

  private async frame({ chatId, headers, body }: Asking, content: object): Promise<object> {
    const { chat } = this.options;
    if (chatId !== chat) throw new Error(`This live transport is for the chat ${chat}, not for ${chatId}.`);
    // A chat that goes on by itself behind a turn of the server names that turn again.
    const more = { ...(await resolve(this.options.body)), ...body, liveTurn: undefined };
    return { ...content, id: chatId, headers: Object.fromEntries(new Headers(headers)), body: more };
  }

  /** The turn of the server that a chat asks for, if it does. */
  private claim({ body, abortSignal }: Asking): LiveAnswer | undefined {
    const { liveTurn: requestId = "" } = (body ?? {}) as { liveTurn?: string };
    const answer = this.begun.get(requestId);
    if (!this.begun.delete(requestId)) return undefined;
    abortSignal?.addEventListener("abort", () => this.abort(requestId, abortSignal), { once: true });
    return answer;
  }

  private async request(content: object, signal: AbortSignal | undefined, failed?: () => void): Promise<LiveAnswer> {
    signal?.throwIfAborted();
    const socket = await this.line.open().catch((error: unknown) => {
      failed?.();
      throw error;
    });
    signal?.throwIfAborted();
    const requestId = newId();
    const answer = this.answer(requestId, failed);
    signal?.addEventListener("abort", () => this.abort(requestId, signal), { once: true });
    socket.send(JSON.stringify({ ...content, requestId }));
    return answer;
  }

  private answer(requestId: string, failed?: () => void): LiveAnswer {
    const answer = new LiveAnswer(() => this.abort(requestId), failed);
    this.open.set(requestId, answer);
    return answer;
  }

  private abort(requestId: string, signal?: AbortSignal): void {
    const answer = this.open.get(requestId);
    if (answer === undefined) return;
    this.open.delete(requestId);
    this.begun.delete(requestId);
    this.sound.hush();
    answer.fail(signal?.reason instanceof Error ? signal.reason : new DOMException("The answer is not wanted.", "AbortError"));
    this.line.abort(requestId);
  }

  private ended(error: Error): void {
    this.hasBeenReady = false;
    const isClosed = error instanceof NotConnected;
    for (const answer of this.open.values()) isClosed ? answer.leave() : answer.fail(error);
    this.open.clear();
    this.begun.clear();
    this.sound.stop();
    if (!isClosed) this["~failed"](error);
  }

  private heard(frame: LiveFrame): boolean {
    switch (frame.type) {
      case "ready":
        this.ready(frame);
        return true;
      case "turn":
        this.turn(frame);
        return true;
      case "user-transcript":
        this.attachment?.transcript(frame.userMessageId, frame.text, frame.final);
        this.options.onTranscript?.({ messageId: frame.userMessageId, text: frame.text, final: frame.final });
        return true;
      case "state":
        this.options.onState?.(frame.state);
        return true;
      case "interrupted":
        this.interrupted(frame);
        return true;
      case "call-settled":
        this.line.answers.taken(frame.toolCallId, frame.approvalId);
        this.attachment?.settled(frame);
        return true;
      case "failed":
        return this.refused(frame);
    }
  }

  private ready({ chat, run, generation, audio, resumed }: LiveReady): void {
    this.sound.connected(generation, resumed);
    this.options.onConnect?.({ chat, run, generation, audio, resumed });
    this.tellLoaded();
    // What was begun while the connection was away was told to nobody.
    if (this.hasBeenReady && run !== null && this.open.size === 0) this.attachment?.resume();
    this.hasBeenReady = true;
  }

  /** Tell what waits in messages that were loaded. */
  private tellLoaded(): void {
    for (const { messageId, part } of this.attachment?.calls() ?? []) {
      if (!this.line.answers.has(part.toolCallId)) this.calls.loaded(messageId, part);
    }
  }

  private turn(turn: TurnFrame): void {
    if (this.open.has(turn.requestId)) return;
    if (this.attachment === undefined) return this["~failed"](new Error(UNATTACHED));
    const answer = this.answer(turn.requestId);
    answer.messageId = turn.messageId;
    answer.begin();
    this.begun.set(turn.requestId, answer);
    this.line.adopt(turn.requestId);
    this.attachment.turn(turn, Promise.all(this.reading));
  }

  private interrupted({ requestId, generation, kept }: LiveInterruption): void {
    this.sound.forget(generation);
    const answer = this.open.get(requestId);
    if (kept !== undefined && answer) answer.whenTextEnded(() => this.attachment?.keep(answer.messageId, kept));
    this.options.onInterruptRequest?.({ requestId, generation, ...(kept !== undefined && { kept }) });
  }

  /** Whether a failure was no request's: those tell their chat. */
  private refused(failure: LiveFrame & { type: "failed" }): boolean {
    const error = socketError(failure.text, failure.code || undefined, this.options.chat, undefined);
    if (this.line.answers.refused(failure, error)) return true;
    if (failure.requestId !== undefined) return false;
    this["~failed"](error);
    return true;
  }

  private media(frame: MediaFrame): void {
    if (frame.kind === "pcm") this.sound.receive(frame);
  }

  private received(data: unknown, error: Error | undefined): void {
    const frame = readServerFrame(data);
    if (frame.type === "pong" || frame.type === "notice") return;
    const answer = this.open.get(frame.requestId);
    if (answer === undefined) return;
    switch (frame.type) {
      case "start":
        return answer.begin();
      case "chunk":
        return this.chunk(answer, frame.chunk as UIMessageChunk);
      case "end":
        return this.over(frame.requestId, answer, () => answer.end());
      case "no-active":
        return this.over(frame.requestId, answer, () => answer.nothing());
      case "error":
        return this.over(frame.requestId, answer, () => answer.fail(error ?? new Error(frame.errorText)));
    }
  }

  private chunk(answer: LiveAnswer, chunk: UIMessageChunk): void {
    answer.chunk(chunk);
    this.calls.chunk(chunk, answer);
    if (chunk.type === "tool-approval-request") answer.whenRead(() => this.attachment?.asked(chunk.approvalId));
    if (chunk.type === "tool-input-available") this.line.answers.taken(chunk.toolCallId);
    if (chunk.type.startsWith("tool-output-")) this.line.answers.settled((chunk as { toolCallId: string }).toolCallId);
  }

  private over(requestId: string, answer: LiveAnswer, end: () => void): void {
    this.open.delete(requestId);
    end();
    this.reading.add(answer.drained);
    void answer.drained.then(() => this.reading.delete(answer.drained));
  }
}

function unlessClosed(error: Error): undefined {
  if (!(error instanceof NotConnected)) throw error;
}

function resultData(toolCallId: string, result: unknown, status: "approved" | "rejected" | undefined): ToolResultData {
  if (status === undefined) return { toolCallId, result: result ?? null };
  if (status === "rejected") return { toolCallId, status, ...(typeof result === "string" && { reason: result }) };
  return { toolCallId, status, ...(result !== undefined && { result }) };
}

/** What the server reads: the last message, or the one that is answered and what follows it. */
function since<M extends UIMessage>(messages: M[], messageId: string | undefined): M[] {
  const at = messageId === undefined ? -1 : messages.findIndex(({ id }) => id === messageId);
  return at < 0 ? messages.slice(-1) : messages.slice(at);
}
