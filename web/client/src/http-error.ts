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

const MAX_TEXT = 1000;

/** A request that the server refused, with the server's own words as the message. */
export class HttpError extends Error {
  override readonly name = "HttpError";
  readonly status: number;
  /** The server's word for what is wrong: `not-found`, `too-many`, ... */
  readonly code: string | undefined;
  /** What can be done about it. */
  readonly hint: string | undefined;
  /** Seconds after which to try again, when the server says so. */
  readonly retryAfter: number | undefined;

  constructor(status: number, message: string, { code, hint, retryAfter }: HttpErrorDetails = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.hint = hint;
    this.retryAfter = retryAfter;
  }

  /** The error that a response stands for. */
  static async of(response: Response): Promise<HttpError> {
    const text = await response.text().catch(() => "");
    const { code, message, hint } = errorIn(text);
    const said = textOf(message) ?? (text.slice(0, MAX_TEXT) || `The server answered with status ${response.status}.`);
    return new HttpError(response.status, said, {
      code: textOf(code), hint: textOf(hint), retryAfter: secondsIn(response.headers.get("retry-after")),
    });
  }

  /** Whether it passes by itself: the server restarts, a proxy before it does not reach it. */
  get passes(): boolean {
    return [408, 425, 502, 503, 504].includes(this.status);
  }
}

function errorIn(text: string): ErrorBody {
  try {
    const body: unknown = JSON.parse(text);
    const error = isObject(body) ? body["error"] : undefined;
    return isObject(error) ? error : {};
  } catch {
    return {};
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function secondsIn(header: string | null): number | undefined {
  if (header === null) return undefined;
  const seconds = /^\s*\d+\s*$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}
