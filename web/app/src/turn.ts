/** The right to hold one of the connections for streams that all tabs of this browser share. */
export interface Turn {
  /** Aborted when another tab waits and this one has had its time. */
  over: AbortSignal;
  end: () => void;
}
