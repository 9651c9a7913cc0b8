import type { Backoff } from "./backoff.js";

/** Full jitter: clients that lost one server together do not come back together. */
export function backoffDelay(attempt: number, { initial = 250, max = 8000 }: Backoff = {}): number {
  return Math.random() * Math.min(max, initial * 2 ** (attempt - 1));
}
