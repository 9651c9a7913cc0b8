import { token } from "./token";

async function fingerprint(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** What the tabs share that hear the same news: the server, and the person that it takes them for. */
export async function newsName(): Promise<string> {
  const bearer = token.read();
  // Every script of this origin can read such names, and the token is of its tab only.
  return `adkwire-news ${new URL(".", location.href).href} ${bearer ? await fingerprint(bearer) : ""}`;
}
