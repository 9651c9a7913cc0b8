import type { Connection } from "./connection";
import { followNews } from "./follow-news";
import type { NewsItem } from "./news-item";
import { newsName } from "./news-name";
import type { NewsReader } from "./news-reader";

/** What tabs tell each other. A tab that comes in asks how the connection stands. */
type Told = { type: "asked" } | { type: "connection"; connection: Connection } | { type: "item"; item: NewsItem | null };

/** Reads what the tab that leads passes on. What was before it came in nobody tells it. */
function listener({ onConnection, onItem }: NewsReader): (told: Told) => void {
  let behind = true;
  return (told) => {
    if (told.type === "item") onItem(told.item);
    if (told.type !== "connection") return;
    onConnection(told.connection);
    if (!behind || told.connection.state !== "connected") return;
    behind = false;
    onItem(null);
  };
}

/**
 * Reads the news once for all tabs of a person: one of them does it and passes them on. When it goes away the next one
 * does, and all look for themselves what happened meanwhile.
 */
export async function shareNews(signal: AbortSignal, reader: NewsReader): Promise<void> {
  if (!("locks" in navigator)) return followNews(signal, reader);
  const name = await newsName();
  if (signal.aborted) return;
  const channel = new BroadcastChannel(name);
  signal.addEventListener("abort", () => channel.close());
  const tell = (told: Told): void => {
    if (!signal.aborted) channel.postMessage(told);
  };
  const hear = listener(reader);
  channel.onmessage = ({ data }: MessageEvent<Told>) => hear(data);
  tell({ type: "asked" });
  const lead = (): Promise<void> => {
    let current: Connection = { state: "connecting" };
    channel.onmessage = ({ data }: MessageEvent<Told>) => {
      if (data.type === "asked") tell({ type: "connection", connection: current });
    };
    return followNews(signal, {
      onConnection: (connection) => {
        current = connection;
        reader.onConnection(connection);
        tell({ type: "connection", connection });
      },
      onItem: (item) => {
        reader.onItem(item);
        tell({ type: "item", item });
      },
    });
  };
  // Whoever leaves while it waits was not asked to lead.
  await navigator.locks.request(name, { signal }, lead).catch(() => undefined);
}
