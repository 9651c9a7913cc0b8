interface ErrorText {
  message: string;
  hint: string;
  /** The answer may still be under way on the server: reconnect instead of asking again. */
  disconnected: boolean;
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

/** Says in words what went wrong and what to do about it. */
export function describeError(error: Error): ErrorText {
  if (error instanceof TypeError && DISCONNECTED.test(error.message)) {
    return {
      message: "The connection to the server was lost.",
      hint: "Check that the server is running, then reconnect. Nothing that was answered is lost.",
      disconnected: true,
    };
  }
  const { message, hint } = parse(error.message);
  return {
    message: message ?? error.message,
    hint: hint ?? "Try again. If it keeps failing, the server's log says more.",
    disconnected: false,
  };
}
