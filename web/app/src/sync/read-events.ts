import { HttpError } from "adkwire";
import { jsonSchema, parseJsonEventStream } from "ai";
import type { Connection } from "../transport/connection";
import { request } from "../transport/request";

/** The fields of an event of `GET /api/events` that this page reads. */
export interface ChatEvent {
  type: "run-started" | "run-ended" | "call-asked" | "call-settled" | "chat-updated";
  chat: string;
  run?: string;
  toolCallId?: string;
}

/** More than two heartbeats of the server: a connection that is silent for longer is dead. */
const SILENCE_MS = 35_000;

/** Abort the request after a silence without even a heartbeat. */
function silenceGuard(cut: AbortController): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
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

/** Read events over one connection until it ends. */
async function readEvents(signal: AbortSignal, onOpen: () => void, onEvent: (event: ChatEvent) => void): Promise<void> {
  const cut = new AbortController();
  const { body } = await request("events", { signal: AbortSignal.any([signal, cut.signal]) });
  if (!body) return;
  onOpen();
  const items = parseJsonEventStream({ stream: body.pipeThrough(silenceGuard(cut)), schema: jsonSchema<ChatEvent>({}) });
  for await (const item of streamed(items)) if (item.success) onEvent(item.value);
}

/** Iterate over a stream: not every browser has that built in. */
async function* streamed<T>(stream: ReadableStream<T>): AsyncGenerator<T, void, void> {
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

export interface EventReader {
  onConnection: (connection: Connection) => void;
  /** Called with null when events may have been missed. */
  onEvent: (event: ChatEvent | null) => void;
}

const MAX_PAUSE_MS = 8000;
const FIRST_PAUSE_MS = 250;

/** Wait with full jitter and exponential backoff; the network's return ends the wait. */
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

/** Read events until aborted, with a new connection whenever one ends. */
export async function followEvents(signal: AbortSignal, { onConnection, onEvent }: EventReader): Promise<void> {
  let attempt = 0;
  let openedAt = 0;
  const opened = (): void => {
    openedAt = performance.now();
    onConnection({ state: "connected" });
    onEvent(null);
  };
  while (!signal.aborted) {
    openedAt = Infinity;
    const failure: unknown = await readEvents(signal, opened, onEvent).catch((error: unknown) => error);
    // The token form takes over after a 401.
    if (signal.aborted || (failure instanceof HttpError && failure.status === 401)) return;
    // A connection that ends at once counts as a failed attempt, or the backoff would start over each time.
    attempt = performance.now() - openedAt > MAX_PAUSE_MS ? 1 : attempt + 1;
    onConnection({ state: "reconnecting", attempt });
    await pause(attempt, signal);
  }
}
