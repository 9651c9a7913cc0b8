/** There is no connection, and none is being made: the server did not get what was to be sent. */
export class NotConnected extends Error {
  override readonly name = "NotConnected";

  constructor(reason = "", options?: ErrorOptions) {
    super(reason === "" ? "There is no connection to the server." : `There is no connection to the server: ${reason}`, options);
  }
}
