import { HttpError } from "adkwire";
import type { NewsReader } from "./news-reader";
import { readNews } from "./read-news";

const MAX_PAUSE_MS = 8000;
const FIRST_PAUSE_MS = 250;

/** Waits for a random time below a bound that doubles, or for the network. */
function pause(attempt: number, signal: AbortSignal): Promise<void> {
  const bound = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempt - 1));
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      window.removeEventListener("online", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, Math.random() * bound);
    window.addEventListener("online", done);
    signal.addEventListener("abort", done);
  });
}

/** Reads the news over as many connections as that takes. */
export async function followNews(signal: AbortSignal, { onConnection, onItem }: NewsReader): Promise<void> {
  let attempt = 0;
  let openedAt = 0;
  const opened = (): void => {
    openedAt = performance.now();
    onConnection({ state: "connected" });
    onItem(null);
  };
  while (!signal.aborted) {
    openedAt = Infinity;
    const failure: unknown = await readNews(signal, opened, onItem).catch((error: unknown) => error);
    // A person who is not known has to say who it is first.
    if (signal.aborted || (failure instanceof HttpError && failure.status === 401)) return;
    // A server that takes everybody and lets nobody stay is not asked more and more often.
    attempt = performance.now() - openedAt > MAX_PAUSE_MS ? 1 : attempt + 1;
    onConnection({ state: "reconnecting", attempt });
    await pause(attempt, signal);
  }
}
