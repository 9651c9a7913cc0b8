/** Where a reader of a run is: behind the chunk with this number. */
export interface Place {
  run: string;
  number: number;
}
