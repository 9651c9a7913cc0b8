import { HttpError } from "./http-error.js";
import { NotRecoveredError } from "./not-recovered-error.js";

/** The statuses that the same refusals have over HTTP. */
const STATUSES = new Map([
  ["malformed", 400],
  ["unauthorized", 401],
  ["forbidden", 403],
  ["not-found", 404],
  ["conflict", 409],
  ["too-large", 413],
  ["unsupported-type", 415],
  ["unprocessable", 422],
  ["too-many", 429],
  ["unavailable", 503],
]);

/** What an error frame stands for: the same errors as over HTTP, told apart by the frame's code. */
export function socketError(text: string, code: string | undefined, chatId: string, run: string | undefined): Error {
  if (code === "not-recovered") return new NotRecoveredError(chatId, run);
  return code === undefined ? new Error(text) : new HttpError(STATUSES.get(code) ?? 500, text, { code });
}
