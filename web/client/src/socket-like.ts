type SocketData = string | ArrayBuffer | Uint8Array<ArrayBuffer>;

/** What is used of a WebSocket: a browser's own, Node's, or that of the `ws` package. */
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

export type SocketConstructor = new (
  url: string | URL,
  protocols?: string | string[],
  options?: { headers?: Record<string, string | undefined> },
) => SocketLike;
