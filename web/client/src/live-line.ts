import { LiveAnswers } from "./live-answers.js";
import type { LiveChatTransportOptions } from "./live-chat-transport-options.js";
import { liveFrame, type ToolResultData } from "./live-frames.js";
import { type LiveListener, LiveSocket } from "./live-socket.js";
import { LiveUplink } from "./live-uplink.js";
import { NotConnected } from "./not-connected.js";
import { SocketOpening, type SocketUser } from "./socket-opening.js";
import type { ResilientWebSocketOptions, SocketState, SocketStateDetail } from "./socket-options.js";
import { socketUrl } from "./socket-url.js";

/** Who hears what comes down the line. */
export type LiveLineOwner = LiveListener & SocketUser;

const OPEN = 1;
const CLOSED = "the transport was closed";

/**
 * The line to the server of a live chat, and what goes up by it. It is opened when it is needed and comes back by itself;
 * what must not be lost with a connection is said again on the next.
 */
export class LiveLine {
  /** Answers to calls that the server has not yet confirmed. */
  readonly answers: LiveAnswers = new LiveAnswers();
  /** Sound and pictures. */
  readonly uplink: LiveUplink = new LiveUplink((frame) => this.post(frame));
  private opening: SocketOpening<LiveSocket> | undefined;
  private socket: LiveSocket | undefined;
  private isConnected = false;

  constructor(
    private readonly options: LiveChatTransportOptions,
    private readonly owner: LiveLineOwner,
  ) {}

  /** The socket, once it is open, or a new one. */
  open(): Promise<LiveSocket> {
    this.opening ??= this.connect();
    return this.opening.opened;
  }

  /** End the live run and the socket. */
  close(): void {
    this.post(liveFrame("close"));
    this.opening?.end(new NotConnected(CLOSED));
  }

  /** Send now or not at all: false when the connection is away. */
  post(frame: string | ArrayBuffer): boolean {
    return this.socket?.post(frame) ?? false;
  }

  /** Resolves when the server has the answer, over as many connections as that takes. */
  async answer(data: ToolResultData): Promise<void> {
    const { frame, done } = this.answers.add(data);
    // A connection that is being made begins with all answers that are on their way.
    if (frame !== undefined && this.socket?.readyState === OPEN) this.socket.post(frame);
    else this.open().catch((error: Error) => this.answers.fail(error));
    await done;
  }

  async interrupt(reason: "user_abort" | "timeout" | "error"): Promise<void> {
    (await this.existing()).send(liveFrame("interrupt", { reason }));
  }

  /** The user begins to speak. */
  async startAudio(source: "ptt" | "vad"): Promise<void> {
    await this.open().catch(notConnected);
    this.uplink.start(source);
  }

  /** The user has spoken. */
  async stopAudio(): Promise<void> {
    await this.existing();
    this.uplink.stop();
  }

  /** Nobody wants the answer to a request any more. */
  abort(requestId: string): void {
    if (this.socket?.readyState === OPEN) this.socket.send(JSON.stringify({ type: "abort", requestId }));
  }

  /** Take up a turn that the server has begun after a drop, too. */
  adopt(requestId: string): void {
    this.socket?.adopt(requestId, this.options.chat);
  }

  /** The socket, once it is open, if there is one at all. */
  private async existing(): Promise<LiveSocket> {
    if (this.opening === undefined) throw new NotConnected();
    return this.opening.opened.catch(notConnected);
  }

  private connect(): SocketOpening<LiveSocket> {
    const opening: SocketOpening<LiveSocket> = new SocketOpening(() => this.dial(), {
      received: (data, error) => this.owner.received(data, error),
      ended: (error) => this.ended(opening, error),
    });
    return opening;
  }

  private async dial(): Promise<LiveSocket> {
    const { url, chat, client } = this.options;
    const address = socketUrl(url, { chat, ...(client !== undefined && { client }) });
    this.socket = new LiveSocket(address, this.socketOptions(), this.owner);
    return this.socket;
  }

  private socketOptions(): ResilientWebSocketOptions {
    const { WebSocket, token, headers, backoff, pingInterval, silence, timeout, onNotice, latencyCallback } = this.options;
    return {
      ...given({ WebSocket, token, headers, backoff, pingInterval, silence, connectTimeout: timeout, onNotice }),
      ...given({ onLatency: latencyCallback }),
      onState: (state, detail) => this.became(state, detail),
    };
  }

  private became(state: SocketState, { reason = "" }: SocketStateDetail): void {
    if (state === "open") return this.connected();
    if (!this.isConnected) return;
    this.isConnected = false;
    this.options.onDisconnect?.({ reason, final: state === "closed" });
  }

  private connected(): void {
    this.isConnected = true;
    for (const frame of this.answers.again()) this.post(frame);
    this.uplink.connected();
  }

  private ended(opening: SocketOpening<LiveSocket>, error: Error): void {
    if (this.opening !== opening) return;
    this.opening = this.socket = undefined;
    this.answers.fail(error);
    this.owner.ended(error);
  }
}

function notConnected(error: Error): never {
  throw NotConnected.because(error);
}

/** The options that were given: some must not be undefined. */
function given<T extends object>(options: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]: Exclude<T[K], undefined> };
}
