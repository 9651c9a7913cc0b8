import { backoffDelay } from "../common/backoff.js";
import { NotRecoveredError } from "../errors.js";
import { onWake } from "./page-visibility.js";
import type { ResilientWebSocketOptions, SocketCounters, SocketState } from "./resilient-web-socket-options.js";
import { afterClose, closeText } from "./socket-close-codes.js";
import { SocketConnection, type SocketConstructor } from "./socket-connection.js";
import { SocketCloseEvent, SocketErrorEvent, SocketMessageEvent } from "./socket-events.js";
import type { DeliveredFrame, SocketNotice, StreamFrame } from "./socket-frames.js";
import { readServerFrame, SOCKET_PROTOCOL } from "./socket-frames.js";
import { SocketHeartbeat } from "./socket-heartbeat.js";
import { SocketRequests } from "./socket-requests.js";

type Outgoing = string | ArrayBuffer | Uint8Array<ArrayBuffer>;

/** Codes of notices about a frame that could not be read. */
const UNREADABLE = new Set(["malformed-frame", "unknown-frame"]);
/** Attempts for the first connection, so that a wrong address is reported soon. */
const FIRST_ATTEMPTS = 8;
/** The close code of a server that was asked too often. */
const TOO_MANY = 4429;
/** Milliseconds to wait at least after `TOO_MANY`: the server's limits are per second. */
const TOO_MANY_WAIT = 1000;
/** A token that may stand in a header, and so in the name of a subprotocol. */
const HEADER_SAFE = /^[\w!#$%&'*+.^`|~-]+$/;

/**
 * A WebSocket that reconnects by itself, made for the official `WebSocketChatTransport` (`webSocket:`). After a lost
 * connection it connects again, repeats requests without a chunk and resumes the others after their last chunk. Its
 * transport gets every frame once and in order, and does not notice that the connection was lost.
 */
export class ResilientWebSocket extends EventTarget {
  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  static readonly CLOSING = 2;
  static readonly CLOSED = 3;
  readonly CONNECTING = 0;
  readonly OPEN = 1;
  readonly CLOSING = 2;
  readonly CLOSED = 3;

  readonly url: string;
  readonly extensions = "";
  /** Not used, since all delivered frames are text. It is here because every WebSocket has it. */
  binaryType: BinaryType = "blob";
  onopen: ((event: unknown) => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onerror: ((event: unknown) => void) | null = null;
  onclose: ((event: unknown) => void) | null = null;

  private state: 0 | 1 | 2 | 3 = 0;
  /** The subprotocol that the server has chosen on the last connection. */
  private chosenProtocol = "";
  /** Attempts that have failed in a row. */
  private failures = 0;
  /** True once the current connection has brought a pong. */
  private hasPong = false;
  private reconnects = 0;
  /** Frames of the server that could not be read. */
  private unreadable = 0;
  private connection: SocketConnection | undefined;
  /** Set while the next attempt waits for its time. */
  private retryTimer: ReturnType<typeof setTimeout> | undefined;
  /** Set while an attempt waits for its token; another object is another attempt. */
  private tokenRequest: object | undefined;
  /** The state and the number of failures that `onState` was last called with. */
  private notified = "";
  /** Frames of no request that wait for a connection. */
  private outbox: Outgoing[] = [];
  protected readonly requests: SocketRequests = new SocketRequests();
  private readonly heartbeat: SocketHeartbeat;
  private readonly ignoreWake: () => void;
  private readonly RealWebSocket: SocketConstructor;
  private readonly protocols: string[];

  constructor(
    url: string | URL,
    protocols: string | string[] = [],
    private readonly options: ResilientWebSocketOptions = {},
  ) {
    super();
    this.url = String(url);
    this.protocols = [...new Set([this.subprotocol, ...[protocols].flat()])];
    this.RealWebSocket = options.WebSocket ?? globalWebSocket();
    this.heartbeat = this.makeHeartbeat();
    this.addHandlers();
    this.ignoreWake = onWake(() => this.wake());
    this.connect();
  }

  get readyState(): number {
    return this.state;
  }

  get protocol(): string {
    return this.chosenProtocol;
  }

  /** Bytes that the connection has not sent; without a connection, characters of the requests that wait for one. */
  get bufferedAmount(): number {
    return this.connection?.isOpen ? this.connection.bufferedAmount : this.requests.waiting;
  }

  get counters(): SocketCounters {
    return { reconnects: this.reconnects, repeated: this.requests.repeated, strange: this.unreadable };
  }

  send(data: Outgoing): void {
    if (this.state === this.CONNECTING) {
      throw new DOMException("Still connecting. Send after the open event.", "InvalidStateError");
    }
    if (this.state !== this.OPEN) return;
    const isConnected = this.connection?.isOpen === true;
    const isTracked = this.requests.track(data, isConnected);
    if (isConnected) this.connection?.send(data);
    else if (!isTracked) this.outbox.push(data);
    if (this.isResting && !this.isIdle) this.connect();
  }

  /** Close the socket and do not connect again. Runs on the server go on. */
  close(code = 1000, reason = ""): void {
    if (this.state >= this.CLOSING) return;
    this.state = this.CLOSING;
    this.connection?.close(code, reason);
    this.release();
    queueMicrotask(() => this.closed(code, reason, true));
  }

  /** The subprotocol that is offered to the server first. */
  protected get subprotocol(): string {
    return SOCKET_PROTOCOL;
  }

  /** Handle a frame that only a subclass knows; return false for any other. */
  protected handles(_data: unknown): boolean {
    return false;
  }

  /** Send now or not at all; return false when there is no connection. A socket that is idle connects again. */
  protected post(data: Outgoing): boolean {
    const isConnected = this.connection?.isOpen === true;
    if (isConnected) this.connection?.send(data);
    else if (this.isResting && this.state === this.OPEN) this.connect();
    return isConnected;
  }

  /** True when nothing waits for a connection. */
  private get isIdle(): boolean {
    return this.state === this.OPEN && this.requests.size === 0 && this.outbox.length === 0;
  }

  private get attempts(): number {
    const { attempts = 30 } = this.options.backoff ?? {};
    return this.state === this.OPEN ? attempts : Math.min(attempts, FIRST_ATTEMPTS);
  }

  /** True when there is no connection and none is being made. */
  private get isResting(): boolean {
    return this.connection === undefined && this.retryTimer === undefined && this.tokenRequest === undefined;
  }

  private makeHeartbeat(): SocketHeartbeat {
    const { pingInterval = 5000, silence = 10_000 } = this.options;
    const ping = (): void => this.connection?.send(JSON.stringify({ type: "ping", timestamp: Date.now() }));
    const lost = (): void => this.connection?.drop(`the server sent nothing for ${silence} ms`);
    return new SocketHeartbeat(pingInterval, silence, ping, lost);
  }

  private addHandlers(): void {
    this.addEventListener("open", (event) => this.onopen?.(event));
    this.addEventListener("message", (event) => this.onmessage?.(event as MessageEvent));
    this.addEventListener("error", (event) => this.onerror?.(event));
    this.addEventListener("close", (event) => this.onclose?.(event));
  }

  private connect(): void {
    clearTimeout(this.retryTimer);
    this.retryTimer = undefined;
    const { token } = this.options;
    if (typeof token !== "function") return this.dial(token);
    const request = (this.tokenRequest = {});
    const ifCurrent = (then: () => void): void => {
      if (this.tokenRequest === request) then();
    };
    Promise.resolve()
      .then(token)
      .then(
        (value) => ifCurrent(() => this.dial(value)),
        (error: unknown) => ifCurrent(() => this.lost(1006, `no token: ${String(error)}`)),
      );
  }

  private dial(token: string | undefined): void {
    this.tokenRequest = undefined;
    this.notify(this.state === this.CONNECTING ? "connecting" : "reconnecting");
    try {
      this.connection = this.newConnection(token);
    } catch (error) {
      // A WebSocket throws for an invalid address or subprotocol, and would throw again at the next attempt.
      this.end(1006, String(error));
    }
  }

  private newConnection(token: string | undefined): SocketConnection {
    const { url, protocols } = withToken(this.url, this.protocols, token);
    const listener = {
      opened: (protocol: string) => this.opened(protocol),
      received: (data: unknown) => this.received(data),
      lost: (code: number, reason: string) => this.lost(code, reason),
    };
    const { headers, connectTimeout = 10_000 } = this.options;
    const { RealWebSocket } = this;
    const socket = headers ? new RealWebSocket(url, protocols, { headers }) : new RealWebSocket(url, protocols);
    return new SocketConnection(socket, listener, connectTimeout);
  }

  private opened(protocol: string): void {
    this.chosenProtocol = protocol;
    this.hasPong = false;
    if (protocol === this.subprotocol) this.heartbeat.start();
    for (const frame of [...this.requests.recoveryFrames(), ...this.outbox.splice(0)]) this.connection?.send(frame);
    const isFirst = this.state === this.CONNECTING;
    if (!isFirst) this.reconnects += 1;
    this.state = this.OPEN;
    this.notify("open");
    if (isFirst) this.dispatchEvent(new Event("open"));
  }

  private received(data: unknown): void {
    this.heartbeat.received();
    if (this.handles(data)) return;
    const frame = readServerFrame(data);
    if (frame.type === "notice") this.receivedNotice(frame);
    else if (frame.type === "pong") this.receivedPong(frame.timestamp);
    else this.receivedFrame(frame);
  }

  private receivedPong(timestamp: number): void {
    this.options.onLatency?.(Math.max(0, Date.now() - timestamp));
    // Only a second pong shows that a connection lasts: else a server that accepts, pongs and closes is tried for ever.
    if (this.hasPong) this.failures = 0;
    this.hasPong = true;
  }

  private receivedNotice({ level, code, text }: SocketNotice): void {
    if (UNREADABLE.has(code)) this.unreadable += 1;
    this.options.onNotice?.({ level, code, text });
  }

  private receivedFrame(frame: StreamFrame): void {
    const delivered = this.requests.receive(frame);
    if (delivered === "gap") this.connection?.drop("chunks are missing");
    if (typeof delivered !== "object") return;
    this.failures = 0;
    this.deliver(delivered);
  }

  private deliver({ error, run, ...frame }: DeliveredFrame): void {
    if (error) this.options.onError?.(error);
    if (error instanceof NotRecoveredError) this.options.onNotRecovered?.(error);
    this.dispatchEvent(new SocketMessageEvent(JSON.stringify(frame), { error, run }));
  }

  private lost(code: number, reason: string): void {
    this.forgetConnection();
    const next = afterClose(code);
    if (next === "refused") return this.refused(code, closeText(code, reason));
    if (next === "rest" && this.isIdle) return this.notify("idle", reason);
    this.failures += 1;
    if (this.failures >= this.attempts) return this.unreachable(reason);
    const wait = backoffDelay(this.failures, this.options.backoff);
    this.retryTimer = setTimeout(() => this.connect(), code === TOO_MANY ? Math.max(wait, TOO_MANY_WAIT) : wait);
    this.notify("reconnecting", closeText(code, reason));
  }

  /** Connect or ping at once: the browser is online again, or the page has become visible. */
  private wake(): void {
    if (this.retryTimer !== undefined) this.connect();
    else this.heartbeat.ping();
  }

  private refused(code: number, text: string): void {
    for (const frame of this.requests.fail(text)) this.deliver(frame);
    this.end(code, text);
  }

  private unreachable(reason: string): void {
    // Without error frames: the official transport takes a close alone for a lost network, and lets the page resume.
    this.end(1006, `no connection in ${this.failures} attempts${reason && `: ${reason}`}`);
  }

  private end(code: number, text: string): void {
    this.state = this.CLOSING;
    this.release();
    queueMicrotask(() => {
      this.closed(code, text, false);
      // After the close: the official transport reports the first event that it gets, and only the close has the
      // reason.
      setTimeout(() => this.dispatchEvent(new SocketErrorEvent(text)));
    });
  }

  private closed(code: number, reason: string, wasClean: boolean): void {
    this.state = this.CLOSED;
    this.notify("closed", reason);
    this.dispatchEvent(new SocketCloseEvent(code, reason, wasClean));
  }

  private release(): void {
    this.forgetConnection();
    this.ignoreWake();
    this.requests.fail("closed");
    this.outbox = [];
  }

  private forgetConnection(): void {
    clearTimeout(this.retryTimer);
    this.retryTimer = undefined;
    this.tokenRequest = undefined;
    this.connection = undefined;
    this.heartbeat.stop();
  }

  /** Call `onState`, once for each state and attempt: when the connection is lost, or else when the attempt begins. */
  private notify(state: SocketState, reason?: string): void {
    const notified = `${state} ${this.failures}`;
    if (notified === this.notified) return;
    this.notified = notified;
    const detail = { attempt: this.failures, requests: this.requests.size };
    this.options.onState?.(state, reason ? { ...detail, reason } : detail);
  }
}

/** Return a `ResilientWebSocket` class with these options, for the option `webSocket` of a transport. */
export function resilientWebSocket(
  options: ResilientWebSocketOptions,
): new (url: string | URL, protocols?: string | string[]) => ResilientWebSocket {
  return class extends ResilientWebSocket {
    constructor(url: string | URL, protocols?: string | string[]) {
      super(url, protocols, options);
    }
  };
}

function globalWebSocket(): SocketConstructor {
  if (typeof WebSocket !== "undefined") return WebSocket;
  throw new Error("This platform has no WebSocket. Give one as the option WebSocket, for example that of `ws`.");
}

/** Add the token as a subprotocol, or to the query if it cannot be one: a browser sends no headers with a socket. */
function withToken(url: string, protocols: string[], token?: string): { url: string; protocols: string[] } {
  if (token === undefined || token === "") return { url, protocols };
  if (HEADER_SAFE.test(token)) return { url, protocols: [...protocols, `adkwire.token.${token}`] };
  const address = new URL(url);
  address.searchParams.set("token", token);
  return { url: address.href, protocols };
}
