/** One of the connections for streams, which all tabs of this browser share. */
export interface Slot {
  /** Aborted when another tab waits for a slot and this one has held it long enough. */
  over: AbortSignal;
  release: () => void;
}

/**
 * Names of the locks. A browser opens six connections to a server for all its tabs together: one carries the events,
 * these three the streams of chats, and the rest is left for short requests such as stop and history.
 */
const SLOTS = ["adkwire-stream-0", "adkwire-stream-1", "adkwire-stream-2"];
/** A tab keeps its slot for at least so long. */
const SLOT_MS = 1000;
const ASK_EVERY_MS = 250;

/** For a browser without locks, whose tabs cannot share. */
const ALONE: Slot = { over: new AbortController().signal, release: () => undefined };

function begin(name: string, unlock: () => void): Slot {
  const since = performance.now();
  const over = new AbortController();
  const requests = new BroadcastChannel(name);
  requests.onmessage = () => {
    // A hidden tab gives its slot away at once.
    if (document.hidden || performance.now() - since >= SLOT_MS) over.abort();
  };
  return {
    over: over.signal,
    release: () => {
      requests.close();
      unlock();
    },
  };
}

function hold(name: string, options: LockOptions): Promise<Slot | null> {
  return new Promise((resolve, reject) => {
    const held = (lock: Lock | null): Promise<void> | undefined => {
      if (lock) return new Promise((unlock) => resolve(begin(name, unlock)));
      resolve(null);
    };
    navigator.locks.request(name, options, held).catch(reject);
  });
}

/** Ask the tab that holds a slot for it, again and again: its minimum time may not be over yet. */
async function waitFor(name: string, signal: AbortSignal): Promise<Slot | null> {
  const requests = new BroadcastChannel(name);
  const timer = setInterval(() => requests.postMessage("release"), ASK_EVERY_MS);
  try {
    return await hold(name, { signal });
  } finally {
    clearInterval(timer);
    requests.close();
  }
}

/** Wait until this tab may hold a stream. */
export async function takeSlot(signal: AbortSignal): Promise<Slot> {
  if (!("locks" in navigator)) return ALONE;
  for (const name of SLOTS) {
    const slot = await hold(name, { ifAvailable: true });
    if (slot) return slot;
  }
  return (await waitFor(SLOTS[Math.floor(Math.random() * SLOTS.length)] ?? "", signal)) ?? ALONE;
}
