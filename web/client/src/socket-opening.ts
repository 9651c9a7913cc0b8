/** What is needed of a socket: `ResilientWebSocket` has it, and so has any other WebSocket. */
export type ChatSocket = {
  readonly readyState: number;
  send(data: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: "open" | "message" | "error" | "close", listener: (event: object) => void): void;
};

/** With a frame of failure, a `ResilientWebSocket` also gives the error that it stands for. */
export type SocketUser = { received(data: unknown, error: Error | undefined): void; ended(error: Error): void };

/** One socket from its making to its end, which is told once, whatever ends it. */
export class SocketOpening<S extends ChatSocket = ChatSocket> {
  readonly opened: Promise<S>;
  private resolve!: (socket: S) => void;
  private reject!: (error: Error) => void;
  private socket: S | undefined;
  private isOver = false;

  constructor(
    make: () => Promise<S>,
    private readonly user: SocketUser,
  ) {
    this.opened = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    // Who waits for it is told; it may also be that nobody does any more.
    this.opened.catch(() => {});
    make().then(
      (socket) => this.made(socket),
      (error: unknown) => this.end(error instanceof Error ? error : new Error(String(error))),
    );
  }

  end(error: Error): void {
    if (this.isOver) return;
    this.isOver = true;
    this.socket?.close(1000, "Client closed transport");
    this.reject(error);
    this.user.ended(error);
  }

  private made(socket: S): void {
    if (this.isOver) return socket.close();
    this.socket = socket;
    socket.addEventListener("open", () => this.resolve(socket));
    socket.addEventListener("message", (event) => this.received(event as { data: unknown; error?: Error }));
    socket.addEventListener("error", () => this.end(new TypeError("The chat's network connection failed.")));
    socket.addEventListener("close", (event) => this.end(closeError(event as CloseEvent)));
  }

  private received({ data, error }: { data: unknown; error?: Error }): void {
    if (!this.isOver) this.user.received(data, error);
  }
}

/** The words by which a chat knows that the network is to blame and that resuming makes sense. */
function closeError({ code, reason }: CloseEvent): Error {
  return new TypeError(`The chat's network connection was closed (code ${code}${reason && `: ${reason}`}).`);
}
