import { HttpError, NotRecoveredError } from "adkwire";
import { isRefused } from "../sync/recover";

interface ErrorText {
  message: string;
  hint: string;
  /** What may be under way is reconnected to, not asked for again. Null: nothing would help. */
  remedy: "retry" | "reconnect" | "load" | null;
}

const DISCONNECTED = /failed to fetch|network|load failed|terminated/i;

/** Nothing at all, or the page of a proxy. */
const UNREADABLE = /^\s*(<|$)/;

const FIRST_SENTENCE = /^(.+?[.!?])\s+(.+)$/s;

const CHANGE_IT = "The server does not take it as it is: change it, then try again.";
const WAIT = "Try again in a moment.";
const ASK_THE_LOG = "Try again. If it keeps failing, the server's log says more.";

const LOST: ErrorText = {
  message: "The connection was lost.",
  hint: "What the server stored is still there. Check that the server is running, then reconnect.",
  remedy: "reconnect",
};

const GONE: ErrorText = {
  message: "The rest of this answer was not recovered.",
  hint: "The server no longer has it as a stream. Load the chat again to see what came of it.",
  remedy: "load",
};

function describeRefusal(error: HttpError): ErrorText {
  const message = UNREADABLE.test(error.message) ? "The server did not answer as it should." : error.message;
  if (isRefused(error)) return { message, hint: error.hint ?? CHANGE_IT, remedy: null };
  if (error.retryAfter) return { message, hint: `Try again in ${Math.ceil(error.retryAfter)} s.`, remedy: "retry" };
  return { message, hint: error.hint ?? (error.status < 500 ? WAIT : ASK_THE_LOG), remedy: "retry" };
}

/** A run that failed brings a text whose first sentence says what happened. */
function describeFailure(text: string): ErrorText {
  const [, message = text, hint = ASK_THE_LOG] = FIRST_SENTENCE.exec(text) ?? [];
  return { message: message || "The server could not answer.", hint, remedy: "retry" };
}

/** Says in words what went wrong and what to do about it. */
export function describeError(error: Error): ErrorText {
  if (error instanceof NotRecoveredError) return GONE;
  if (error instanceof HttpError) return describeRefusal(error);
  if (error instanceof TypeError && DISCONNECTED.test(error.message)) return LOST;
  return describeFailure(error.message);
}
