/** Milliseconds to wait between attempts: a random time below a bound that doubles from `initial` to `max`. */
export interface Backoff {
  /** Milliseconds that bound the first wait; 250 by default. */
  initial?: number;
  /** Milliseconds that bound every wait; 8000 by default. */
  max?: number;
  /**
   * Attempts in a row that may bring nothing before the connection counts as lost; 30 by default, about two minutes.
   */
  attempts?: number;
}

/**
 * Return how many milliseconds to wait before an attempt. Random, so that clients of one server do not return together.
 */
export function backoffDelay(attempt: number, { initial = 250, max = 8000 }: Backoff = {}): number {
  return Math.random() * Math.min(max, initial * 2 ** (attempt - 1));
}
