import { authorizedFetch } from "./authorized-fetch";
import { takeTurn } from "./take-turn";
import type { Turn } from "./turn";

type Writer = WritableStreamDefaultWriter<Uint8Array>;

interface Leg {
  response: Response;
  turn: Turn;
}

const EVENT_END = "\n\n";
const ID_LINE = /^id: (.+)$/gm;

function isStream({ headers }: Response): boolean {
  return headers.get("content-type")?.startsWith("text/event-stream") ?? false;
}

async function open(address: RequestInfo | URL, init: RequestInit & { signal: AbortSignal }): Promise<Leg> {
  const turn = await takeTurn(init.signal);
  try {
    const response = await authorizedFetch(address, init);
    // Anything else is short.
    if (!isStream(response)) turn.end();
    return { response, turn };
  } catch (error) {
    turn.end();
    throw error;
  }
}

/** Passes on whole events until they end or the turn is over. Returns the id of the last one. */
async function pass({ response, turn }: Leg, writer: Writer, before: string): Promise<string> {
  const reader = response.body?.getReader();
  const [decoder, encoder] = [new TextDecoder(), new TextEncoder()];
  let [id, rest] = [before, ""];
  // Who has nothing yet could not go on from there.
  const give = (): void => {
    if (turn.over.aborted && id) reader?.cancel().catch(() => undefined);
  };
  turn.over.addEventListener("abort", give);
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
    give();
  }
}

/** Whatever is not the expected stream ends this one: the transport then asks by itself, and hears why. */
async function passAll(first: Leg, again: (id: string) => Promise<Leg>, writer: Writer): Promise<void> {
  let [leg, id] = [first, ""];
  while (isStream(leg.response)) {
    try {
      id = await pass(leg, writer, id);
    } finally {
      leg.turn.end();
    }
    if (!leg.turn.over.aborted) break;
    leg = await again(id);
  }
  await writer.close();
}

/**
 * A `fetch` for the streams of a chat that gives its connection to other tabs when they wait for one, and then goes on
 * where it was, by `resumeAt`. Whoever reads the response notices nothing but a pause.
 */
export function fetchInTurns(resumeAt: string): typeof fetch {
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
