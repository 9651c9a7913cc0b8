import { HttpError } from "adkwire";
import type { Connection } from "./connection";
import type { NewsItem } from "./news-item";
import { readNews } from "./read-news";

/** Null: whatever happened before is not told, so look for yourself. */
type Listener = (item: NewsItem | null) => void;

const MAX_PAUSE_MS = 8000;
const FIRST_PAUSE_MS = 250;

const listeners = new Set<Listener>();
const watchers = new Set<() => void>();
let connection: Connection = { state: "connecting" };
let reading: AbortController | null = null;

function tell(item: NewsItem | null): void {
  for (const listener of [...listeners]) listener(item);
}

function become(next: Connection): void {
  connection = next;
  for (const watcher of [...watchers]) watcher();
}

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

async function read(signal: AbortSignal): Promise<void> {
  let attempt = 0;
  const opened = (): void => {
    attempt = 0;
    become({ state: "connected" });
    tell(null);
  };
  while (!signal.aborted) {
    const failure: unknown = await readNews(signal, opened, tell).catch((error: unknown) => error);
    // A person who is not known has to say who it is first.
    if (signal.aborted || (failure instanceof HttpError && failure.status === 401)) return;
    attempt += 1;
    become({ state: "reconnecting", attempt });
    await pause(attempt, signal);
  }
}

/** A browser has few connections to one server, so only pages that are looked at hold this one. */
function update(): void {
  const wanted = listeners.size > 0 && !document.hidden;
  if (wanted && !reading) {
    reading = new AbortController();
    void read(reading.signal);
  } else if (!wanted && reading) {
    reading.abort();
    reading = null;
  }
}

document.addEventListener("visibilitychange", update);

/** What happens in the person's chats, in this tab or elsewhere. */
export const news = {
  /** Calls with every item, and with null when something may have been missed. */
  listen(listener: Listener): () => void {
    listeners.add(listener);
    update();
    return () => {
      listeners.delete(listener);
      update();
    };
  },
  /** For `useSyncExternalStore`: how the connection stands. */
  subscribe(watcher: () => void): () => void {
    watchers.add(watcher);
    return () => watchers.delete(watcher);
  },
  connection: (): Connection => connection,
};
