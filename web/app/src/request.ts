import { authorizedFetch } from "./authorized-fetch";

/** Calls our API, relative to the page so that it also works under a prefix. Throws with the body's text when refused. */
export async function request(path: string, method: "GET" | "POST" | "DELETE" = "GET"): Promise<Response> {
  const init: RequestInit = { method };
  if (method === "POST") {
    init.headers = { "Content-Type": "application/json" };
    init.body = "{}";
  }
  const response = await authorizedFetch(`api/${path}`, init);
  if (response.ok) return response;
  throw new Error((await response.text()) || `${response.status} ${response.statusText}`);
}
