import { HttpError } from "adkwire";
import { authorizedFetch } from "./authorized-fetch";

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
