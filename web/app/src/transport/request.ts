import { HttpError } from "adkwire";
import { token } from "./token";

/** The event on `window` after a response with status 401. */
export const UNAUTHORIZED = "adkwire:unauthorized";

/** `fetch` with the token of this tab. A 401 makes the page ask for one. */
export async function authorizedFetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const headers = new Headers(init?.headers);
  const bearer = token.read();
  if (bearer) headers.set("Authorization", `Bearer ${bearer}`);
  const response = await fetch(input, { ...init, headers });
  if (response.status === 401) window.dispatchEvent(new Event(UNAUTHORIZED));
  return response;
}

interface RequestOptions {
  method?: "GET" | "POST" | "DELETE";
  signal?: AbortSignal;
  /** The JSON of a POST. */
  json?: object;
  /** An error status that the caller handles itself. */
  accept?: number;
}

/** Call the API, at an address relative to the page so that a prefix works too. Throw `HttpError` on an error status. */
export async function request(path: string, { accept, json = {}, ...options }: RequestOptions = {}): Promise<Response> {
  const body = options.method === "POST" ? { headers: { "Content-Type": "application/json" }, body: JSON.stringify(json) } : {};
  const response = await authorizedFetch(`api/${path}`, { ...options, ...body });
  if (response.ok || response.status === accept) return response;
  throw await HttpError.of(response);
}
