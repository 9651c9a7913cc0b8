import { token } from "./token";
import { UNAUTHORIZED } from "./unauthorized";

/** `fetch` with this tab's token; a 401 asks the person for one. */
export async function authorizedFetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const headers = new Headers(init?.headers);
  const bearer = token.read();
  if (bearer) headers.set("Authorization", `Bearer ${bearer}`);
  const response = await fetch(input, { ...init, headers });
  if (response.status === 401) window.dispatchEvent(new Event(UNAUTHORIZED));
  return response;
}
