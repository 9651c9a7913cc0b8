/** What follows the end of a connection: no more of it, a new one when it is needed, or a new one now. */
export type AfterClose = "refused" | "rest" | "again";

/** The other side will not have us, or not what we send: a new connection would end the same way. */
const REFUSED = new Set([1002, 1003, 1007, 1008, 1009, 1010, 4400, 4401, 4403, 4404]);

/** Nothing was wrong and nothing was going on. */
const RESTING = new Set([1000, 4408]);

const MEANINGS = new Map([
  [1008, "The server refused the connection"],
  [1009, "A message is larger than the server allows"],
  [4404, "There is no such chat"],
]);

/** Decide what follows a close code. */
export function afterClose(code: number): AfterClose {
  if (REFUSED.has(code)) return "refused";
  return RESTING.has(code) ? "rest" : "again";
}

/** Say in words why the server ended it. */
export function closeText(code: number, reason: string): string {
  const meaning = MEANINGS.get(code) ?? `The server ended the connection (code ${code})`;
  return reason === "" ? `${meaning}.` : `${meaning}: ${reason}`;
}
