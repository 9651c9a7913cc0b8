/** Addresses are also written by hand: a `%` that encodes nothing stands for itself. */
export function decodeAddress(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
