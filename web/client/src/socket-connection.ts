import type { SocketLike } from "./socket-like.js";

export type ConnectionOwner = {
  opened(protocol: string): void;
  received(data: unknown): void;
  lost(code: number, reason: string): void;
};

type Listeners = Record<"open" | "message" | "error" | "close", (event: object) => void>;

const OPEN = 1;
const NO_REASON = 1006;

/** How the `ws` package tells that the server answered the handshake by something else: not so in a browser. */
const HANDSHAKE_STATUS = /Unexpected server response: (\d{3})/;
const WORTH_RETRYING = new Set([408, 425, 429]);

/**
 * One real socket. Its owner hears of it until it is lost or left, and never afterwards: whatever an old socket still
 * has to say reaches nobody.
 */
export class SocketConnection {
  private readonly listeners: Listeners;
  private readonly timer: ReturnType<typeof setTimeout>;
  private failure = "";

  constructor(
    private readonly socket: SocketLike,
    private readonly owner: ConnectionOwner,
    timeout: number,
  ) {
    socket.binaryType = "arraybuffer";
    this.listeners = {
      open: () => this.opened(),
      message: (event) => owner.received((event as MessageEvent).data),
      error: (event) => this.failed((event as ErrorEvent).message),
      close: (event) => this.closed((event as CloseEvent).code, (event as CloseEvent).reason),
    };
    for (const type of types(this.listeners)) socket.addEventListener(type, this.listeners[type]);
    this.timer = setTimeout(() => this.drop(`no connection within ${timeout} ms`), timeout);
  }

  get isOpen(): boolean {
    return this.socket.readyState === OPEN;
  }

  get bufferedAmount(): number {
    return this.socket.bufferedAmount;
  }

  send(data: Parameters<SocketLike["send"]>[0]): void {
    if (this.isOpen) this.socket.send(data);
  }

  /** Leave it for good, politely. */
  close(code: number, reason: string): void {
    this.detach();
    try {
      this.socket.close(code, reason);
    } catch {
      // Browsers let a page say only 1000 and 3000 to 4999.
      this.socket.close();
    }
  }

  /** Leave it because it is of no use any more; the owner is told as of any other loss. */
  drop(reason: string): void {
    this.detach();
    if (this.socket.terminate) this.socket.terminate();
    else this.socket.close();
    this.owner.lost(NO_REASON, reason);
  }

  private opened(): void {
    clearTimeout(this.timer);
    this.owner.opened(this.socket.protocol);
  }

  private failed(message: unknown): void {
    if (typeof message === "string") this.failure = message;
  }

  private closed(code: number, reason: string): void {
    this.detach();
    const status = Number(HANDSHAKE_STATUS.exec(this.failure)?.[1]);
    const refused = status >= 400 && status < 500 && !WORTH_RETRYING.has(status);
    if (refused) this.owner.lost(1008, `HTTP ${status}`);
    else this.owner.lost(code, reason || this.failure);
  }

  private detach(): void {
    clearTimeout(this.timer);
    for (const type of types(this.listeners)) this.socket.removeEventListener(type, this.listeners[type]);
    // In `ws` an error that nobody listens to ends the process.
    this.socket.addEventListener("error", ignore);
  }
}

function types(listeners: Listeners): (keyof Listeners)[] {
  return Object.keys(listeners) as (keyof Listeners)[];
}

function ignore(): void {}
