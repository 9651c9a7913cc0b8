/** The end of a socket, as a browser's `CloseEvent`, which Node 20 does not have. */
export class SocketCloseEvent extends Event {
  constructor(
    readonly code: number,
    readonly reason: string,
    readonly wasClean: boolean,
  ) {
    super("close");
  }
}

/** A frame for the owner; our own transport also reads why a request failed. */
export class SocketMessageEvent extends MessageEvent<string> {
  constructor(
    data: string,
    readonly error: Error | undefined,
  ) {
    super("message", { data });
  }
}

/** Why a socket ended, in words. */
export class SocketErrorEvent extends Event {
  readonly error: Error;

  constructor(readonly message: string) {
    super("error");
    this.error = new Error(message);
  }
}
