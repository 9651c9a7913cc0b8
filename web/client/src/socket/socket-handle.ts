import type { FrameDetails } from "./socket-frames.js";

/** The members of a socket that a transport uses. A `ResilientWebSocket` has them, and so has any other WebSocket. */
export type ChatSocket = {
  readonly readyState: number;
  send(data: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: "open" | "message" | "error" | "close", listener: (event: object) => void): void;
};

/** The callbacks of a `SocketHandle`. The details of a frame are empty unless it comes from a `ResilientWebSocket`. */
export type SocketListener = { received(data: unknown, details: FrameDetails): void; ended(error: Error): void };

const SCHEMES: Record<string, string> = { "http:": "ws:", "https:": "wss:" };

/** A socket from before it opens until it ends. Its end is reported once, whatever ends it. */
export class SocketHandle<S extends ChatSocket = ChatSocket> {
  readonly opened: Promise<S>;
  private resolve!: (socket: S) => void;
  private reject!: (error: Error) => void;
  private socket: S | undefined;
  private hasEnded = false;

  constructor(
    create: () => Promise<S>,
    private readonly listener: SocketListener,
  ) {
    this.opened = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    // `opened` may reject when nothing waits for it any more.
    this.opened.catch(() => {});
    create().then(
      (socket) => this.created(socket),
      (error: unknown) => this.end(error instanceof Error ? error : new Error(String(error))),
    );
  }

  /** Close the socket and report this error as the reason. */
  end(error: Error): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.socket?.close(1000, "Client closed transport");
    this.reject(error);
    this.listener.ended(error);
  }

  private created(socket: S): void {
    if (this.hasEnded) return socket.close();
    this.socket = socket;
    socket.addEventListener("open", () => this.resolve(socket));
    socket.addEventListener("message", (event) => this.received(event as { data: unknown; details?: FrameDetails }));
    socket.addEventListener("error", () => this.end(new TypeError("The chat's network connection failed.")));
    socket.addEventListener("close", (event) => this.end(closeError(event as CloseEvent)));
  }

  private received({ data, details = {} }: { data: unknown; details?: FrameDetails }): void {
    if (!this.hasEnded) this.listener.received(data, details);
  }
}

/** Return the error for a closed socket. A chat takes a TypeError that names the network for a connection to resume. */
function closeError({ code, reason }: CloseEvent): Error {
  return new TypeError(`The chat's network connection was closed (code ${code}${reason && `: ${reason}`}).`);
}

/** Return the address of a socket: relative to the page, with ws for http, and with these query parameters. */
export function socketUrl(url: string, params: Record<string, string> = {}): string {
  const address = new URL(url, typeof location === "undefined" ? undefined : location.href);
  address.protocol = SCHEMES[address.protocol] ?? address.protocol;
  address.hash = "";
  for (const [name, value] of Object.entries(params)) address.searchParams.set(name, value);
  return address.href;
}
