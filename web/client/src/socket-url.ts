const SCHEMES: Record<string, string> = { "http:": "ws:", "https:": "wss:" };

/** The address of a socket: relative to the page, http as ws, https as wss, with more query parameters. */
export function socketUrl(url: string, params: Record<string, string> = {}): string {
  const address = new URL(url, typeof location === "undefined" ? undefined : location.href);
  address.protocol = SCHEMES[address.protocol] ?? address.protocol;
  address.hash = "";
  for (const [name, value] of Object.entries(params)) address.searchParams.set(name, value);
  return address.href;
}
