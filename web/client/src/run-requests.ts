import type { Place } from "./place.js";

/** How a run is asked for. */
export interface RunRequests {
  /** From its beginning; `again` when an earlier request may have arrived, and the `run` that it was answered with, if any. */
  begin(signal: AbortSignal, again: boolean, run: string | undefined): Promise<Response>;
  /** From behind a place. */
  resume(signal: AbortSignal, place: Place): Promise<Response>;
}
