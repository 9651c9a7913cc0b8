import type { Place } from "./place.js";

/** The place that an event's id names, `<run>:<number>`. */
export function parsePlace(id: string | undefined): Place | undefined {
  const colon = id?.lastIndexOf(":") ?? -1;
  if (id === undefined || colon < 1) return undefined;
  const number = id.slice(colon + 1);
  return /^-?\d{1,15}$/.test(number) ? { run: id.slice(0, colon), number: Number(number) } : undefined;
}
