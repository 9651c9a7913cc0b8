import type { UIMessageChunk } from "ai";

type Stream = ReadableStream<UIMessageChunk>;

/** The same stream, once something has come. */
async function begun(stream: Stream | null): Promise<Stream | null> {
  if (!stream) return null;
  const [first, whole] = stream.tee();
  const reader = first.getReader();
  await reader.read();
  void reader.cancel();
  return whole;
}

/** What a socket brings; undefined when it turns out to be one too many before anything has come. */
export async function unlessCrowded<T extends Stream | null>(
  asked: Promise<T>, crowded: Promise<void>,
): Promise<T | undefined> {
  const came = asked.then(begun) as Promise<T>;
  return Promise.race([came, crowded.then(() => undefined)]);
}
