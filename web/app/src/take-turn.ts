import type { Turn } from "./turn";

/**
 * A browser opens six connections to a server, for all its tabs together. One is for the news, these are for streams, and
 * the rest is for whatever must not wait: a stop, a history, another tab.
 */
const PLACES = ["adkwire-stream-0", "adkwire-stream-1", "adkwire-stream-2"];
const TURN_MS = 1000;
const ASK_EVERY_MS = 250;

/** Nobody asks a tab that is alone, or that cannot know of the others. */
const ALONE: Turn = { over: new AbortController().signal, end: () => undefined };

function begin(place: string, end: () => void): Turn {
  const since = performance.now();
  const over = new AbortController();
  const asked = new BroadcastChannel(place);
  asked.onmessage = () => {
    // Who is not looked at lets others go first.
    if (document.hidden || performance.now() - since >= TURN_MS) over.abort();
  };
  return {
    over: over.signal,
    end: () => {
      asked.close();
      end();
    },
  };
}

function hold(place: string, options: LockOptions): Promise<Turn | null> {
  return new Promise((resolve, reject) => {
    const held = (lock: Lock | null): Promise<void> | undefined => {
      if (lock) return new Promise((end) => resolve(begin(place, end)));
      resolve(null);
    };
    navigator.locks.request(place, options, held).catch(reject);
  });
}

/** Asks until it is heard: whoever holds the place may have got it only now. */
async function waitFor(place: string, signal: AbortSignal): Promise<Turn | null> {
  const asking = new BroadcastChannel(place);
  const timer = setInterval(() => asking.postMessage("please"), ASK_EVERY_MS);
  try {
    return await hold(place, { signal });
  } finally {
    clearInterval(timer);
    asking.close();
  }
}

/** Waits until this tab may hold a stream. Turns are short while there are more tabs than places. */
export async function takeTurn(signal: AbortSignal): Promise<Turn> {
  if (!("locks" in navigator)) return ALONE;
  for (const place of PLACES) {
    const turn = await hold(place, { ifAvailable: true });
    if (turn) return turn;
  }
  return (await waitFor(PLACES[Math.floor(Math.random() * PLACES.length)] ?? "", signal)) ?? ALONE;
}
