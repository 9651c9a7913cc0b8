import { HttpError, NotConnected, NotRecoveredError } from "adkwire";
import { type Strings, strings } from "../strings";
import { isRefused } from "../sync/recover";

interface ErrorText {
  message: string;
  hint: string;
  /** What a button can do about it. A run that may still be active is reconnected to, not asked for again. */
  remedy: "retry" | "reconnect" | "load" | null;
  /** Seconds to wait before the button can be used. */
  wait?: number;
}

type ErrorStrings = Strings["errors"];

const DISCONNECTED = /failed to fetch|network|load failed|terminated/i;
/** In the error of a socket: the server's reasons for closing it. */
const TOO_MANY_SOCKETS = /too many sockets/;
const SOCKET_REFUSED = /code 1008|refused the connection/;
const ORIGIN = /origin/i;

/** An empty body, or the HTML page of a proxy. */
const UNREADABLE = /^\s*(<|$)/;

const FIRST_SENTENCE = /^(.+?[.!?])\s+(.+)$/s;

const FORBIDDEN = 403;
const TOO_LARGE = 413;

function refusedOrigin(t: ErrorStrings): ErrorText {
  return { message: t.refusedOrigin, hint: t.refusedOriginHint(location.origin), remedy: "reconnect" };
}

/** Describe a connection that was lost or never came about. */
function describeLost(t: ErrorStrings, text: string): ErrorText {
  if (TOO_MANY_SOCKETS.test(text)) return { message: t.tooManySockets, hint: t.tooManySocketsHint, remedy: "reconnect" };
  if (SOCKET_REFUSED.test(text)) return refusedOrigin(t);
  return { message: t.lost, hint: t.lostHint, remedy: "reconnect" };
}

function describeHttpError(t: ErrorStrings, error: HttpError): ErrorText {
  const message = UNREADABLE.test(error.message) ? t.unreadable : error.message;
  if (error.status === FORBIDDEN && ORIGIN.test(`${message} ${error.hint ?? ""}`)) return refusedOrigin(t);
  if (error.status === TOO_LARGE) return { message, hint: error.hint ?? t.makeItSmaller, remedy: null };
  if (isRefused(error)) return { message, hint: error.hint ?? t.changeIt, remedy: null };
  if (error.retryAfter) return { message, hint: t.waitsForYou, remedy: "retry", wait: Math.ceil(error.retryAfter) };
  return { message, hint: error.hint ?? (error.status < 500 ? t.wait : t.seeLog), remedy: "retry" };
}

/** Describe a failed run: the first sentence of its error text says what happened. */
function describeFailure(t: ErrorStrings, text: string): ErrorText {
  const [, message = text, hint = t.seeLog] = FIRST_SENTENCE.exec(text) ?? [];
  return { message: message || t.failed, hint, remedy: "retry" };
}

/** Say in words what went wrong and what to do about it. */
export function describeError(error: Error): ErrorText {
  const t = strings().errors;
  if (error instanceof NotRecoveredError) return { message: t.notRecovered, hint: t.notRecoveredHint, remedy: "load" };
  if (error instanceof HttpError) return describeHttpError(t, error);
  if (error instanceof NotConnected || (error instanceof TypeError && DISCONNECTED.test(error.message))) {
    return describeLost(t, error.message);
  }
  return describeFailure(t, error.message);
}
