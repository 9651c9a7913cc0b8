/** How long to wait between attempts, in milliseconds: a random time below a bound that doubles from `initial` to `max`. */
export interface Backoff {
  /** 250 by default. */
  initial?: number;
  /** 8000 by default. */
  max?: number;
  /** How many attempts in a row may bring nothing before the error is told; 30 by default, about two minutes. */
  attempts?: number;
}
