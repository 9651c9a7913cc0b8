import { HttpError, NotRecoveredError } from "adkwire";
import { type Strings, strings } from "../strings";
import { isRefused } from "../sync/recover";

interface ErrorText {
  message: string;
  hint: string;
  /** What a button can do about it. A run that may still be active is reconnected to, not asked for again. */
  remedy: "retry" | "reconnect" | "load" | null;
}

type ErrorStrings = Strings["errors"];

const DISCONNECTED = /failed to fetch|network|load failed|terminated/i;

/** An empty body, or the HTML page of a proxy. */
const UNREADABLE = /^\s*(<|$)/;

const FIRST_SENTENCE = /^(.+?[.!?])\s+(.+)$/s;

function describeHttpError(t: ErrorStrings, error: HttpError): ErrorText {
  const message = UNREADABLE.test(error.message) ? t.unreadable : error.message;
  if (isRefused(error)) return { message, hint: error.hint ?? t.changeIt, remedy: null };
  if (error.retryAfter) return { message, hint: t.waitSeconds(Math.ceil(error.retryAfter)), remedy: "retry" };
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
  if (error instanceof TypeError && DISCONNECTED.test(error.message)) {
    return { message: t.lost, hint: t.lostHint, remedy: "reconnect" };
  }
  return describeFailure(t, error.message);
}
