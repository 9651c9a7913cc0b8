/** The outcome of a promise, or a rejection when it takes longer or is no longer wanted. */
export function within<T>(promise: Promise<T>, ms: number, signal: AbortSignal, late: string): Promise<T> {
  const listening = new AbortController();
  const limit = new Promise<never>((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    const timer = setTimeout(() => reject(new DOMException(late, "TimeoutError")), ms);
    listening.signal.addEventListener("abort", () => clearTimeout(timer));
    signal.addEventListener("abort", () => reject(signal.reason), { signal: listening.signal });
  });
  return Promise.race([promise, limit]).finally(() => listening.abort());
}
