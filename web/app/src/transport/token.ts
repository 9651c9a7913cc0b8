/** Decode a part of an address. People also type addresses: a stray `%` stands for itself. */
export function decodeAddress(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const KEY = "adkwire-token";

/** The bearer token of this tab. It arrives as `#token=...` and never stays in the address bar. */
export const token = {
  read: (): string | null => sessionStorage.getItem(KEY),
  write: (value: string): void => sessionStorage.setItem(KEY, value),
  takeFromAddress(): void {
    const found = /[#&]token=([^&]+)/.exec(location.hash);
    if (!found?.[1]) return;
    token.write(decodeAddress(found[1]));
    const rest = location.hash.replace(found[0], "").replace(/^[#&]+/, "");
    history.replaceState(null, "", location.pathname + location.search + (rest && `#${rest}`));
  },
};
