/** A connection that ended before what it carries did. It is worth another attempt. */
export class Cut extends Error {
  override readonly name = "Cut";
  /** Seconds the server asks us to wait. */
  readonly retryAfter: number;

  constructor(cause: unknown, retryAfter = 0) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.retryAfter = retryAfter;
  }
}
