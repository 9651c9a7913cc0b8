import type { Connection } from "./connection";
import type { NewsItem } from "./news-item";
import { shareNews } from "./share-news";

/** Null: whatever happened before is not told, so look for yourself. */
type Listener = (item: NewsItem | null) => void;

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

/** A browser has few connections to one server, so only pages that are looked at want this one. */
function update(): void {
  const wanted = listeners.size > 0 && !document.hidden;
  if (wanted && !reading) {
    reading = new AbortController();
    void shareNews(reading.signal, { onConnection: become, onItem: tell });
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
