/** Client errors that pass by themselves: a timeout, a busy chat, too many requests. */
const PASSING = [408, 409, 425, 429];

/** An answer of the server that is no success; its text is the message. */
export class Refusal extends Error {
  constructor(readonly status: number, text: string) {
    super(text);
  }

  static async of(response: Response): Promise<Refusal> {
    return new Refusal(response.status, await response.text());
  }

  /** Whether the request itself was at fault. */
  get blamesRequest(): boolean {
    return this.status >= 400 && this.status < 500;
  }

  /** Whether the same request would be refused again. */
  get final(): boolean {
    return this.blamesRequest && !PASSING.includes(this.status);
  }
}
