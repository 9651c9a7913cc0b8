/** The position of a reader in the stream log of a run: it has all chunks up to this number. */
export interface Position {
  run: string;
  number: number;
}

/** Parse the id of an event, `<run>:<number>`; undefined for any other id. */
export function parsePosition(id: string | undefined): Position | undefined {
  const colon = id?.lastIndexOf(":") ?? -1;
  if (id === undefined || colon < 1) return undefined;
  const number = id.slice(colon + 1);
  return /^-?\d{1,15}$/.test(number) ? { run: id.slice(0, colon), number: Number(number) } : undefined;
}
