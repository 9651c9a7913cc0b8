/** An address with more path, in front of its query. */
export function appendPath(address: string, path: string): string {
  const at = address.search(/[?#]/);
  const [front, back] = at < 0 ? [address, ""] : [address.slice(0, at), address.slice(at)];
  return `${front.replace(/\/$/, "")}${path}${back}`;
}
