import type { FrameDetails } from "./socket-frames.js";

/** The close event of a `ResilientWebSocket`. Not a `CloseEvent`: Node 20 has none. */
export class SocketCloseEvent extends Event {
  constructor(
    readonly code: number,
    readonly reason: string,
    readonly wasClean: boolean,
  ) {
    super("close");
  }
}

/** The message event of a `ResilientWebSocket`, with the details of its frame for our own transports. */
export class SocketMessageEvent extends MessageEvent<string> {
  constructor(
    data: string,
    readonly details: FrameDetails,
  ) {
    super("message", { data });
  }
}

/** The error event of a `ResilientWebSocket`, with the reason why it has ended. */
export class SocketErrorEvent extends Event {
  readonly error: Error;

  constructor(readonly message: string) {
    super("error");
    this.error = new Error(message);
  }
}
