/** An id that nobody else has. Without `crypto.randomUUID`, which a page has only over https. */
export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join("");
}
