/** Whether a request failed on its way: `fetch` says so with a TypeError, but also says so of an address that is none. */
export function isNetworkError(error: unknown): boolean {
  if (error instanceof Error && error.name === "TimeoutError") return true;
  if (!(error instanceof TypeError)) return false;
  const cause: unknown = error.cause;
  return !(cause instanceof Error && "code" in cause && cause.code === "ERR_INVALID_URL");
}
