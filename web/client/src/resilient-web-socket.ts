import { backoffDelay } from "./backoff-delay.js";
import { NotRecoveredError } from "./not-recovered-error.js";
import { afterClose, closeText } from "./socket-close-codes.js";
import { SocketConnection } from "./socket-connection.js";
import { SocketCloseEvent, SocketErrorEvent, SocketMessageEvent } from "./socket-events.js";
import type { AnswerFrame, PassedFrame, SocketNotice } from "./socket-frames.js";
import { readServerFrame, SOCKET_PROTOCOL } from "./socket-frames.js";
import { SocketHeartbeat } from "./socket-heartbeat.js";
import type { SocketConstructor } from "./socket-like.js";
import type { ResilientWebSocketOptions, SocketCounters, SocketState } from "./socket-options.js";
import { SocketRequests } from "./socket-requests.js";
import { onWake } from "./socket-wake.js";

export type { SocketNotice } from "./socket-frames.js";
export type { ResilientWebSocketOptions, SocketCounters, SocketState, SocketStateDetail } from "./socket-options.js";

type Outgoing = string | ArrayBuffer | Uint8Array<ArrayBuffer>;

const STRANGE = new Set(["malformed-frame", "unknown-frame"]);
const FIRST_ATTEMPTS = 8;
const TOO_MANY = 4429;
/** The server counts in seconds. */
const TOO_MANY_WAIT = 1000;
const HEADER_SAFE = /^[\w!#$%&'*+.^`|~-]+$/;

/**
 * A WebSocket that comes back by itself. Made for the official `WebSocketChatTransport` (`webSocket:`): after a drop it
 * connects anew, sends again what was not answered and resumes every open request behind the last chunk it passed on,
 * so that its owner sees every frame once and in order, and no drop.
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
  /** The chat frames are text; kept because a WebSocket has it. */
  binaryType: BinaryType = "blob";
  onopen: ((event: unknown) => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onerror: ((event: unknown) => void) | null = null;
  onclose: ((event: unknown) => void) | null = null;

  private state: 0 | 1 | 2 | 3 = 0;
  private spoken = "";
  private failures = 0;
  private lasting = false;
  private reconnects = 0;
  private strange = 0;
  private connection: SocketConnection | undefined;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private attempt: object | undefined;
  private told = "";
  private outbox: Outgoing[] = [];
  protected readonly requests: SocketRequests = new SocketRequests();
  private readonly heartbeat: SocketHeartbeat;
  private readonly unwake: () => void;
  private readonly Real: SocketConstructor;
  private readonly protocols: string[];

  constructor(
    url: string | URL,
    protocols: string | string[] = [],
    private readonly options: ResilientWebSocketOptions = {},
  ) {
    super();
    this.url = String(url);
    this.protocols = [...new Set([this.language, ...[protocols].flat()])];
    this.Real = options.WebSocket ?? globalWebSocket();
    this.heartbeat = this.makeHeartbeat();
    this.addHandlers();
    this.unwake = onWake(() => this.wake());
    this.connect();
  }

  get readyState(): number {
    return this.state;
  }

  get protocol(): string {
    return this.spoken;
  }

  /** While away: what waits for the connection. */
  get bufferedAmount(): number {
    return this.connection?.isOpen ? this.connection.bufferedAmount : this.requests.waiting;
  }

  get counters(): SocketCounters {
    return { reconnects: this.reconnects, repeated: this.requests.repeated, strange: this.strange };
  }

  send(data: Outgoing): void {
    if (this.state === this.CONNECTING) throw new DOMException("Still connecting.", "InvalidStateError");
    if (this.state !== this.OPEN) return;
    const connected = this.connection?.isOpen === true;
    const tracked = this.requests.note(data, connected);
    if (connected) this.connection?.send(data);
    else if (!tracked) this.outbox.push(data);
    if (this.isResting && !this.isIdle) this.connect();
  }

  /** End it for good. Runs go on: going away is not stopping. */
  close(code = 1000, reason = ""): void {
    if (this.state >= this.CLOSING) return;
    this.state = this.CLOSING;
    this.connection?.close(code, reason);
    this.release();
    queueMicrotask(() => this.closed(code, reason, true));
  }

  /** The subprotocol that is asked for. */
  protected get language(): string {
    return SOCKET_PROTOCOL;
  }

  /** Whether a frame of the server was one that only a subclass knows. */
  protected takes(_data: unknown): boolean {
    return false;
  }

  /** Send now or not at all: false when the connection is away. One that rests is made again. */
  protected post(data: Outgoing): boolean {
    const connected = this.connection?.isOpen === true;
    if (connected) this.connection?.send(data);
    else if (this.isResting && this.state === this.OPEN) this.connect();
    return connected;
  }

  private get isIdle(): boolean {
    return this.state === this.OPEN && this.requests.size === 0 && this.outbox.length === 0;
  }

  private get attempts(): number {
    const { attempts = 30 } = this.options.backoff ?? {};
    return this.state === this.OPEN ? attempts : Math.min(attempts, FIRST_ATTEMPTS);
  }

  private get isResting(): boolean {
    return this.connection === undefined && this.retry === undefined && this.attempt === undefined;
  }

  private makeHeartbeat(): SocketHeartbeat {
    const { pingInterval = 5000, silence = 10_000 } = this.options;
    const ping = (): void => this.connection?.send(JSON.stringify({ type: "ping", timestamp: Date.now() }));
    const dead = (): void => this.connection?.drop(`no answer for ${silence} ms`);
    return new SocketHeartbeat(pingInterval, silence, ping, dead);
  }

  private addHandlers(): void {
    this.addEventListener("open", (event) => this.onopen?.(event));
    this.addEventListener("message", (event) => this.onmessage?.(event as MessageEvent));
    this.addEventListener("error", (event) => this.onerror?.(event));
    this.addEventListener("close", (event) => this.onclose?.(event));
  }

  private connect(): void {
    clearTimeout(this.retry);
    this.retry = undefined;
    const { token } = this.options;
    if (typeof token !== "function") return this.dial(token);
    const attempt = (this.attempt = {});
    const current = (then: () => void): void => {
      if (this.attempt === attempt) then();
    };
    Promise.resolve()
      .then(token)
      .then(
        (value) => current(() => this.dial(value)),
        (error: unknown) => current(() => this.lost(1006, `no token: ${String(error)}`)),
      );
  }

  private dial(token: string | undefined): void {
    this.attempt = undefined;
    this.tell(this.state === this.CONNECTING ? "connecting" : "reconnecting");
    try {
      this.connection = this.newConnection(token);
    } catch (error) {
      // An address or a token that no socket takes today, none will take tomorrow.
      this.end(1006, String(error));
    }
  }

  private newConnection(token: string | undefined): SocketConnection {
    const { url, protocols } = addressed(this.url, this.protocols, token);
    const owner = {
      opened: (protocol: string) => this.opened(protocol),
      received: (data: unknown) => this.received(data),
      lost: (code: number, reason: string) => this.lost(code, reason),
    };
    const { headers, connectTimeout = 10_000 } = this.options;
    const socket = headers ? new this.Real(url, protocols, { headers }) : new this.Real(url, protocols);
    return new SocketConnection(socket, owner, connectTimeout);
  }

  private opened(protocol: string): void {
    this.spoken = protocol;
    this.lasting = false;
    if (protocol === this.language) this.heartbeat.start();
    for (const frame of [...this.requests.recovery(), ...this.outbox.splice(0)]) this.connection?.send(frame);
    const isFirst = this.state === this.CONNECTING;
    if (!isFirst) this.reconnects += 1;
    this.state = this.OPEN;
    this.tell("open");
    if (isFirst) this.dispatchEvent(new Event("open"));
  }

  private received(data: unknown): void {
    this.heartbeat.heard();
    if (this.takes(data)) return;
    const frame = readServerFrame(data);
    if (frame.type === "notice") this.noticed(frame);
    else if (frame.type === "pong") this.ponged(frame.timestamp);
    else this.answered(frame);
  }

  private ponged(timestamp: number): void {
    this.options.onLatency?.(Math.max(0, Date.now() - timestamp));
    // Not the first: a server that accepts, answers and refuses would otherwise be asked for ever.
    if (this.lasting) this.failures = 0;
    this.lasting = true;
  }

  private noticed({ level, code, text }: SocketNotice): void {
    if (STRANGE.has(code)) this.strange += 1;
    this.options.onNotice?.({ level, code, text });
  }

  private answered(frame: AnswerFrame): void {
    const passed = this.requests.receive(frame);
    if (passed === "gap") this.connection?.drop("chunks are missing");
    if (typeof passed !== "object") return;
    this.failures = 0;
    this.pass(passed);
  }

  private pass({ error, ...frame }: PassedFrame): void {
    if (error) this.options.onError?.(error);
    if (error instanceof NotRecoveredError) this.options.onNotRecovered?.(error);
    this.dispatchEvent(new SocketMessageEvent(JSON.stringify(frame), error));
  }

  private lost(code: number, reason: string): void {
    this.leave();
    const next = afterClose(code);
    if (next === "refused") return this.refused(code, closeText(code, reason));
    if (next === "rest" && this.isIdle) return this.tell("idle", reason);
    this.failures += 1;
    if (this.failures >= this.attempts) return this.unreachable(reason);
    const wait = backoffDelay(this.failures, this.options.backoff);
    this.retry = setTimeout(() => this.connect(), code === TOO_MANY ? Math.max(wait, TOO_MANY_WAIT) : wait);
    this.tell("reconnecting", closeText(code, reason));
  }

  /** The network is back, or somebody looks at the page again. */
  private wake(): void {
    if (this.retry !== undefined) this.connect();
    else this.heartbeat.beat();
  }

  private refused(code: number, text: string): void {
    for (const frame of this.requests.fail(text)) this.pass(frame);
    this.end(code, text);
  }

  private unreachable(reason: string): void {
    // No frames: the official transport takes the bare close for the network's fault and lets the page resume.
    this.end(1006, `no connection in ${this.failures} attempts${reason && `: ${reason}`}`);
  }

  private end(code: number, text: string): void {
    this.state = this.CLOSING;
    this.release();
    queueMicrotask(() => {
      this.closed(code, text, false);
      // Behind the close: the official transport keeps what it hears first, and only a close tells it why.
      setTimeout(() => this.dispatchEvent(new SocketErrorEvent(text)));
    });
  }

  private closed(code: number, reason: string, wasClean: boolean): void {
    this.state = this.CLOSED;
    this.tell("closed", reason);
    this.dispatchEvent(new SocketCloseEvent(code, reason, wasClean));
  }

  private release(): void {
    this.leave();
    this.unwake();
    this.requests.fail("closed");
    this.outbox = [];
  }

  private leave(): void {
    clearTimeout(this.retry);
    this.retry = undefined;
    this.attempt = undefined;
    this.connection = undefined;
    this.heartbeat.stop();
  }

  /** Says a state once: an attempt is announced when the connection is lost, or else when it is made. */
  private tell(state: SocketState, reason?: string): void {
    const told = `${state} ${this.failures}`;
    if (told === this.told) return;
    this.told = told;
    const detail = { attempt: this.failures, requests: this.requests.size };
    this.options.onState?.(state, reason ? { ...detail, reason } : detail);
  }
}

/** A `ResilientWebSocket` with its options built in, to be given to a transport as `webSocket`. */
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
  throw new Error("There is no WebSocket here. Give one as the option WebSocket, for example that of `ws`.");
}

/** A browser cannot send headers with a socket: the token goes as a subprotocol, or in the query if it cannot. */
function addressed(url: string, protocols: string[], token?: string): { url: string; protocols: string[] } {
  if (token === undefined || token === "") return { url, protocols };
  if (HEADER_SAFE.test(token)) return { url, protocols: [...protocols, `adkwire.token.${token}`] };
  const address = new URL(url);
  address.searchParams.set("token", token);
  return { url: address.href, protocols };
}
