/**
 * Wait for a promise, at most some milliseconds and until the signal is aborted; reject with `text` when it is late.
 */
export function withTimeout<T>(promise: Promise<T>, ms: number, signal: AbortSignal, text: string): Promise<T> {
  const listening = new AbortController();
  const limit = new Promise<never>((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    const timer = setTimeout(() => reject(new DOMException(text, "TimeoutError")), ms);
    listening.signal.addEventListener("abort", () => clearTimeout(timer));
    signal.addEventListener("abort", () => reject(signal.reason), { signal: listening.signal });
  });
  return Promise.race([promise, limit]).finally(() => listening.abort());
}

/**
 * Wait some milliseconds, or until the browser is online again if that is earlier; reject when the signal is aborted.
 */
export function delayOrOnline(ms: number, signal: AbortSignal): Promise<void> {
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
