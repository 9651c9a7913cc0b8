import { authorizedFetch } from "./request";
import { type Slot, takeSlot } from "./stream-slots";

type Writer = WritableStreamDefaultWriter<Uint8Array>;

interface Leg {
  response: Response;
  slot: Slot;
}

const EVENT_END = "\n\n";
const ID_LINE = /^id: (.+)$/gm;

function isStream({ headers }: Response): boolean {
  return headers.get("content-type")?.startsWith("text/event-stream") ?? false;
}

async function open(address: RequestInfo | URL, init: RequestInit & { signal: AbortSignal }): Promise<Leg> {
  const slot = await takeSlot(init.signal);
  try {
    const response = await authorizedFetch(address, init);
    // Any other response is short and needs no slot.
    if (!isStream(response)) slot.release();
    return { response, slot };
  } catch (error) {
    slot.release();
    throw error;
  }
}

/** Pass on whole events until the stream ends or the slot is over. Return the id of the last event. */
async function pass({ response, slot }: Leg, writer: Writer, before: string): Promise<string> {
  const reader = response.body?.getReader();
  const [decoder, encoder] = [new TextDecoder(), new TextEncoder()];
  let [id, rest] = [before, ""];
  // Without an id there is nothing to resume from.
  const leaveIfOver = (): void => {
    if (slot.over.aborted && id) reader?.cancel().catch(() => undefined);
  };
  slot.over.addEventListener("abort", leaveIfOver);
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true };
    if (done) return id;
    rest += decoder.decode(value, { stream: true });
    const end = rest.lastIndexOf(EVENT_END) + EVENT_END.length;
    if (end < EVENT_END.length) continue;
    const whole = rest.slice(0, end);
    rest = rest.slice(end);
    await writer.write(encoder.encode(whole));
    id = [...whole.matchAll(ID_LINE)].at(-1)?.[1] ?? id;
    leaveIfOver();
  }
}

/** Pass on the stream, slot after slot. An unexpected response ends it: the transport then resumes and gets the error. */
async function passAll(first: Leg, again: (id: string) => Promise<Leg>, writer: Writer): Promise<void> {
  let [leg, id] = [first, ""];
  while (isStream(leg.response)) {
    try {
      id = await pass(leg, writer, id);
    } finally {
      leg.slot.release();
    }
    if (!leg.slot.over.aborted) break;
    leg = await again(id);
  }
  await writer.close();
}

/**
 * Return a `fetch` for the streams of a chat. While other tabs wait for a connection it gives its own away, then resumes
 * at `resumeAt`; the reader of the response notices a pause only.
 */
export function fetchInSlots(resumeAt: string): typeof fetch {
  return async (address, given = {}) => {
    const unread = new AbortController();
    const signal = given.signal ? AbortSignal.any([given.signal, unread.signal]) : unread.signal;
    const first = await open(address, { ...given, signal });
    if (!isStream(first.response)) return first.response;
    const again = (id: string): Promise<Leg> => {
      const headers = new Headers(given.headers);
      headers.delete("content-type");
      headers.set("last-event-id", id);
      return open(resumeAt, { headers, signal });
    };
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const writer = writable.getWriter();
    writer.closed.catch(() => unread.abort());
    passAll(first, again, writer).catch((error: unknown) => writer.abort(error).catch(() => undefined));
    return new Response(readable, first.response);
  };
}
