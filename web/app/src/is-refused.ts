import { HttpError } from "adkwire";

/** Client errors that pass by themselves: a timeout, a busy chat, too many requests. */
const PASSING = [408, 409, 425, 429];

/** Whether the server refused a request that it would refuse again. */
export function isRefused(error: Error): boolean {
  return error instanceof HttpError && error.status >= 400 && error.status < 500 && !PASSING.includes(error.status);
}
