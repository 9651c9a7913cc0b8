import { isJsonObject, parseJsonObject } from "./common/json-object.js";

interface ErrorBody {
  code?: unknown;
  message?: unknown;
  hint?: unknown;
}

interface HttpErrorDetails {
  code?: string | undefined;
  hint?: string | undefined;
  retryAfter?: number | undefined;
}

/** Characters of a response that is not ours, for example a proxy's page, that go into an error's message. */
const MAX_TEXT = 1000;

/** A request that the server refused. Its `message` is the server's own text. */
export class HttpError extends Error {
  override readonly name = "HttpError";
  readonly status: number;
  /** The server's code for what is wrong: `not-found`, `too-many`, ... */
  readonly code: string | undefined;
  /** What can be done about it. */
  readonly hint: string | undefined;
  /** Seconds after which to try again, if the server has named a time. */
  readonly retryAfter: number | undefined;

  constructor(status: number, message: string, { code, hint, retryAfter }: HttpErrorDetails = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.hint = hint;
    this.retryAfter = retryAfter;
  }

  /** Read the error out of a response that is not ok. */
  static async of(response: Response): Promise<HttpError> {
    const text = await response.text().catch(() => "");
    const { code, message, hint } = errorIn(text);
    const words = textOf(message) ?? (text.slice(0, MAX_TEXT) || `The server answered with status ${response.status}.`);
    return new HttpError(response.status, words, {
      code: textOf(code), hint: textOf(hint), retryAfter: secondsIn(response.headers.get("retry-after")),
    });
  }
}

/** The rest of a message that was being written is not kept any more. The chat's history shows what became of it. */
export class NotRecoveredError extends Error {
  override readonly name = "NotRecoveredError";
  readonly chatId: string;
  readonly run: string | undefined;

  constructor(chatId: string, run: string | undefined) {
    super("The rest of this answer was not recovered. Load the chat again to see it.");
    this.chatId = chatId;
    this.run = run;
  }
}

/** There is no connection to the server and none is being made. What was to be sent may not have reached the server. */
export class NotConnected extends Error {
  override readonly name = "NotConnected";

  constructor(reason = "", options?: ErrorOptions) {
    super(`There is no connection to the server${reason === "" ? "." : `: ${reason}`}`, options);
  }

  /** Wrap the error that ended the connection; one that is a `NotConnected` is returned as it is. */
  static because(error: Error): NotConnected {
    return error instanceof NotConnected ? error : new NotConnected(error.message, { cause: error });
  }
}

function errorIn(text: string): ErrorBody {
  const error = parseJsonObject(text)?.["error"];
  return isJsonObject(error) ? error : {};
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** Parse `Retry-After`, which is a number of seconds or a date. */
function secondsIn(header: string | null): number | undefined {
  if (header === null) return undefined;
  const seconds = /^\s*\d+\s*$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}
