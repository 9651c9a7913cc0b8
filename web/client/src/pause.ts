/** Waits, but no longer than until the network is back; rejects when aborted. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  const page: Partial<EventTarget> = globalThis;
  const listening = new AbortController();
  return new Promise<void>((resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    const timer = setTimeout(resolve, ms);
    listening.signal.addEventListener("abort", () => clearTimeout(timer));
    page.addEventListener?.("online", () => resolve(), { signal: listening.signal });
    signal.addEventListener("abort", () => reject(signal.reason), { signal: listening.signal });
  }).finally(() => listening.abort());
}
