import { jsonSchema, parseJsonEventStream } from "ai";
import type { NewsItem } from "./news-item";
import { request } from "./request";

/** Two heartbeats of the server and more: a connection that is silent for longer is dead. */
const SILENCE_MS = 35_000;

/** Ends the request when nothing, not even a heartbeat, came for too long. */
function watched(cut: AbortController): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
  const wait = (): number => window.setTimeout(() => cut.abort(), SILENCE_MS);
  let timer = wait();
  return new TransformStream({
    transform(bytes, controller) {
      clearTimeout(timer);
      timer = wait();
      controller.enqueue(bytes);
    },
    flush: () => clearTimeout(timer),
  });
}

/** Reads the news of all chats until the connection ends. `onOpen` hears that it has begun. */
export async function readNews(signal: AbortSignal, onOpen: () => void, onItem: (item: NewsItem) => void): Promise<void> {
  const cut = new AbortController();
  const { body } = await request("events", { signal: AbortSignal.any([signal, cut.signal]) });
  if (!body) return;
  onOpen();
  const items = parseJsonEventStream({ stream: body.pipeThrough(watched(cut)), schema: jsonSchema<NewsItem>({}) });
  for await (const item of streamed(items)) if (item.success) onItem(item.value);
}

/** Not every browser can go through a stream by itself. */
async function* streamed<T>(stream: ReadableStream<T>): AsyncGenerator<T, void, void> {
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}
