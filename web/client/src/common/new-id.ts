/** Return a new random id. Not by `crypto.randomUUID`: a page has that only over https. */
export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join("");
}
