/** What a socket does after a close: give up, connect again when it is needed, or connect again now. */
export type AfterClose = "refused" | "rest" | "again";

/** The server refuses this client or what it sends: a new connection would end the same way. */
const REFUSED = new Set([1002, 1003, 1007, 1008, 1009, 1010, 4400, 4401, 4403, 4404]);

/** The connection was closed because it was not used. */
const RESTING = new Set([1000, 4408]);

const MEANINGS = new Map([
  [1008, "The server refused the connection"],
  [1009, "A message is larger than the server allows"],
  [4404, "There is no such chat"],
]);

/** Return what a socket does after this close code. */
export function afterClose(code: number): AfterClose {
  if (REFUSED.has(code)) return "refused";
  return RESTING.has(code) ? "rest" : "again";
}

/** Return a sentence that explains this close. */
export function closeText(code: number, reason: string): string {
  const meaning = MEANINGS.get(code) ?? `The server ended the connection (code ${code})`;
  return reason === "" ? `${meaning}.` : `${meaning}: ${reason}`;
}
