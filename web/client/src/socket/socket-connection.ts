type SocketData = string | ArrayBuffer | Uint8Array<ArrayBuffer>;

/** The members of a WebSocket that are used: a browser's, Node's, or that of the `ws` package. */
export type SocketLike = {
  readonly readyState: number;
  readonly bufferedAmount: number;
  readonly protocol: string;
  binaryType: string;
  send(data: SocketData): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: "open" | "message" | "error" | "close", listener: (event: object) => void): void;
  removeEventListener(type: "open" | "message" | "error" | "close", listener: (event: object) => void): void;
  /** `ws` only: end without the closing handshake. */
  terminate?(): void;
};

/** A WebSocket class. Only that of `ws` takes options. */
export type SocketConstructor = new (
  url: string | URL,
  protocols?: string | string[],
  options?: { headers?: Record<string, string | undefined> },
) => SocketLike;

/** The callbacks of a `SocketConnection`. */
export type ConnectionListener = {
  opened(protocol: string): void;
  received(data: unknown): void;
  lost(code: number, reason: string): void;
};

type EventListeners = Record<"open" | "message" | "error" | "close", (event: object) => void>;

/** The `readyState` of an open socket. */
const OPEN = 1;
/** The close code of a connection that ended without the closing handshake. */
const ABNORMAL = 1006;
/** The close code of a connection that the server refuses. */
const REFUSED = 1008;

/**
 * The error of the `ws` package when the server refuses the handshake with an HTTP status. Browsers hide the status.
 */
const HANDSHAKE_STATUS = /Unexpected server response: (\d{3})/;
/** Client errors after which another attempt may succeed. */
const RETRYABLE = new Set([408, 425, 429]);

/** One real socket. Its listener gets nothing more once it has been lost, closed or dropped. */
export class SocketConnection {
  private readonly listeners: EventListeners;
  private readonly timer: ReturnType<typeof setTimeout>;
  private errorText = "";

  /** `timeout` is in milliseconds. */
  constructor(
    private readonly socket: SocketLike,
    private readonly listener: ConnectionListener,
    timeout: number,
  ) {
    socket.binaryType = "arraybuffer";
    this.listeners = {
      open: () => this.opened(),
      message: (event) => listener.received((event as MessageEvent).data),
      error: (event) => this.failed((event as ErrorEvent).message),
      close: (event) => this.closed((event as CloseEvent).code, (event as CloseEvent).reason),
    };
    for (const type of typesOf(this.listeners)) socket.addEventListener(type, this.listeners[type]);
    this.timer = setTimeout(() => this.drop(`no connection within ${timeout} ms`), timeout);
  }

  get isOpen(): boolean {
    return this.socket.readyState === OPEN;
  }

  get bufferedAmount(): number {
    return this.socket.bufferedAmount;
  }

  send(data: SocketData): void {
    if (this.isOpen) this.socket.send(data);
  }

  /** Close the socket with the closing handshake. The listener is not called. */
  close(code: number, reason: string): void {
    this.detach();
    try {
      this.socket.close(code, reason);
    } catch {
      // Browsers let a page use only the codes 1000 and 3000 to 4999.
      this.socket.close();
    }
  }

  /** End a socket that no longer works, and report it as lost. */
  drop(reason: string): void {
    this.detach();
    if (this.socket.terminate) this.socket.terminate();
    else this.socket.close();
    this.listener.lost(ABNORMAL, reason);
  }

  private opened(): void {
    clearTimeout(this.timer);
    this.listener.opened(this.socket.protocol);
  }

  private failed(message: unknown): void {
    if (typeof message === "string") this.errorText = message;
  }

  private closed(code: number, reason: string): void {
    this.detach();
    const status = Number(HANDSHAKE_STATUS.exec(this.errorText)?.[1]);
    const isRefused = status >= 400 && status < 500 && !RETRYABLE.has(status);
    if (isRefused) this.listener.lost(REFUSED, `HTTP ${status}`);
    else this.listener.lost(code, reason || this.errorText);
  }

  private detach(): void {
    clearTimeout(this.timer);
    for (const type of typesOf(this.listeners)) this.socket.removeEventListener(type, this.listeners[type]);
    // In Node an error event without a listener ends the process.
    this.socket.addEventListener("error", ignore);
  }
}

function typesOf(listeners: EventListeners): (keyof EventListeners)[] {
  return Object.keys(listeners) as (keyof EventListeners)[];
}

function ignore(): void {}
