import { NotConnected } from "../errors.js";
import type {
  ResilientWebSocketOptions, SocketState, SocketStateDetail,
} from "../socket/resilient-web-socket-options.js";
import { SocketHandle, type SocketListener, socketUrl } from "../socket/socket-handle.js";
import type { LiveChatTransportOptions } from "./live-chat-transport-options.js";
import { liveFrame, type ToolResultData } from "./live-frames.js";
import { type LiveListener, LiveSocket } from "./live-socket.js";
import { LiveUplink } from "./live-uplink.js";
import { UnconfirmedAnswers } from "./unconfirmed-answers.js";

/** The callbacks of a `LiveConnection`. */
export type LiveConnectionListener = LiveListener & SocketListener;

/** The `readyState` of an open socket. */
const OPEN = 1;
const CLOSED = "the transport was closed";

/**
 * The connection of a live chat, and everything that is sent over it. It opens when it is needed and reconnects by
 * itself. Answers to calls, and whether the user is speaking, are sent again on a new connection.
 */
export class LiveConnection {
  readonly answers: UnconfirmedAnswers = new UnconfirmedAnswers();
  readonly uplink: LiveUplink = new LiveUplink((frame) => this.post(frame));
  private handle: SocketHandle<LiveSocket> | undefined;
  private socket: LiveSocket | undefined;
  private isConnected = false;

  constructor(
    private readonly options: LiveChatTransportOptions,
    private readonly listener: LiveConnectionListener,
  ) {}

  /** Return the socket once it is open. A new one is made if there is none. */
  open(): Promise<LiveSocket> {
    this.handle ??= this.newHandle();
    return this.handle.opened;
  }

  /** End the conversation and close the socket. */
  close(): void {
    this.post(liveFrame("close"));
    this.disconnect();
  }

  /** Close the socket. The conversation goes on for the server's grace. */
  disconnect(): void {
    this.handle?.end(new NotConnected(CLOSED));
  }

  /** Send now or not at all; return false when there is no connection. */
  post(frame: string | ArrayBuffer): boolean {
    return this.socket?.post(frame) ?? false;
  }

  /** Send an answer to a call. Resolves when the server has confirmed it, over as many connections as that takes. */
  async answer(data: ToolResultData): Promise<void> {
    const { frame, done } = this.answers.add(data);
    // A connection that is being made sends all unconfirmed answers when it opens.
    if (frame !== undefined && this.socket?.readyState === OPEN) this.socket.post(frame);
    else this.open().catch((error: Error) => this.answers.fail(error));
    await done;
  }

  /** Interrupt the agent on the server. */
  async interrupt(reason: "user_abort" | "timeout" | "error"): Promise<void> {
    (await this.existing()).send(liveFrame("interrupt", { reason }));
  }

  /** The user begins to speak. */
  async startAudio(source: "ptt" | "vad"): Promise<void> {
    await this.open().catch(throwNotConnected);
    this.uplink.start(source);
  }

  /** The user has stopped speaking. */
  async stopAudio(): Promise<void> {
    await this.existing();
    this.uplink.stop();
  }

  /** Abort a request. */
  abort(requestId: string): void {
    if (this.socket?.readyState === OPEN) this.socket.send(JSON.stringify({ type: "abort", requestId }));
  }

  /** Resume this turn, which the server has begun, after a lost connection. */
  adopt(requestId: string): void {
    this.socket?.adopt(requestId, this.options.chat);
  }

  /** Return the socket once it is open; reject when there is none and none is being made. */
  private async existing(): Promise<LiveSocket> {
    if (this.handle === undefined) throw new NotConnected();
    return this.handle.opened.catch(throwNotConnected);
  }

  private newHandle(): SocketHandle<LiveSocket> {
    const handle: SocketHandle<LiveSocket> = new SocketHandle(() => this.newSocket(), {
      received: (data, details) => this.listener.received(data, details),
      ended: (error) => this.ended(handle, error),
    });
    return handle;
  }

  private async newSocket(): Promise<LiveSocket> {
    const { url, chat, client } = this.options;
    const address = socketUrl(url, { chat, ...(client !== undefined && { client }) });
    this.socket = new LiveSocket(address, this.socketOptions(), this.listener);
    return this.socket;
  }

  private socketOptions(): ResilientWebSocketOptions {
    const { WebSocket, token, headers, backoff, pingInterval, silence, onNotice } = this.options;
    const { timeout: connectTimeout, latencyCallback: onLatency } = this.options;
    return {
      ...withoutUndefined({ WebSocket, token, headers, backoff, pingInterval, silence, onNotice }),
      ...withoutUndefined({ connectTimeout, onLatency }),
      onState: (state, detail) => this.stateChanged(state, detail),
    };
  }

  private stateChanged(state: SocketState, { reason = "" }: SocketStateDetail): void {
    if (state === "open") return this.connected();
    if (!this.isConnected) return;
    this.isConnected = false;
    this.options.onDisconnect?.({ reason, final: state === "closed" });
  }

  private connected(): void {
    this.isConnected = true;
    for (const frame of this.answers.frames()) this.post(frame);
    this.uplink.connected();
  }

  private ended(handle: SocketHandle<LiveSocket>, error: Error): void {
    if (this.handle !== handle) return;
    this.handle = this.socket = undefined;
    this.answers.fail(error);
    this.listener.ended(error);
  }
}

function throwNotConnected(error: Error): never {
  throw NotConnected.because(error);
}

/** Leave out options that are undefined: the type of the result has no undefined values. */
function withoutUndefined<T extends object>(options: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]: Exclude<T[K], undefined> };
}
