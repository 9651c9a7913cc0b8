/** One of the two pieces of background music. */
export type Track = 0 | 1;
