import { Refusal } from "./refusal";

interface ErrorText {
  message: string;
  hint: string;
  /** Without a connection the answer may still be under way: reconnect, do not ask again. Null: nothing would help. */
  remedy: "retry" | "reconnect" | null;
}

const DISCONNECTED = /failed to fetch|network|load failed|terminated/i;

/** Nothing at all, or the page of a proxy. */
const UNREADABLE = /^\s*(<|$)/;

const FIRST_SENTENCE = /^(.+?[.!?])\s+(.+)$/s;

/** A refused request brings JSON; a run that failed brings a text whose first sentence says what happened. */
function parse(text: string): { message?: string; hint?: string } {
  if (UNREADABLE.test(text)) return { message: "The server did not answer as it should." };
  try {
    return (JSON.parse(text) as { error?: { message?: string; hint?: string } }).error ?? {};
  } catch {
    const [, message = text, hint] = FIRST_SENTENCE.exec(text) ?? [];
    return hint === undefined ? { message } : { message, hint };
  }
}

const CHANGE_IT = "The server does not take it as it is: change it, then try again.";
const WAIT = "Try again in a moment.";
const ASK_THE_LOG = "Try again. If it keeps failing, the server's log says more.";

/** Says in words what went wrong and what to do about it. */
export function describeError(error: Error): ErrorText {
  if (error instanceof TypeError && DISCONNECTED.test(error.message)) {
    return {
      message: "The connection was lost.",
      hint: "What the server stored is still there. Check that the server is running, then reconnect.",
      remedy: "reconnect",
    };
  }
  const { message = error.message, hint } = parse(error.message);
  if (!(error instanceof Refusal && error.blamesRequest)) return { message, hint: hint ?? ASK_THE_LOG, remedy: "retry" };
  return error.final
    ? { message, hint: hint ?? CHANGE_IT, remedy: null }
    : { message, hint: hint ?? WAIT, remedy: "retry" };
}
