import { HttpError } from "adkwire";
import { token } from "./token";

/** Fired on `window` when the server asks who we are. */
export const UNAUTHORIZED = "adkwire:unauthorized";

/** `fetch` with this tab's token; a 401 asks the person for one. */
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
  /** A status that is an answer here, not a failure. */
  accept?: number;
}

/** Calls our API, relative to the page so that it also works under a prefix. Throws what the server said when refused. */
export async function request(path: string, { accept, ...options }: RequestOptions = {}): Promise<Response> {
  const body = options.method === "POST" ? { headers: { "Content-Type": "application/json" }, body: "{}" } : {};
  const response = await authorizedFetch(`api/${path}`, { ...options, ...body });
  if (response.ok || response.status === accept) return response;
  throw await HttpError.of(response);
}
