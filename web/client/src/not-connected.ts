/** There is no connection, and none is being made: what was to be sent did not, or may not, reach the server. */
export class NotConnected extends Error {
  override readonly name = "NotConnected";

  constructor(reason = "", options?: ErrorOptions) {
    super(reason === "" ? "There is no connection to the server." : `There is no connection to the server: ${reason}`, options);
  }

  /** What is wrong, said once. */
  static because(error: Error): NotConnected {
    return error instanceof NotConnected ? error : new NotConnected(error.message, { cause: error });
  }
}
