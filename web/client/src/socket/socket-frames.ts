import { isJsonObject, type JsonObject, parseJsonObject, stringOf } from "../common/json-object.js";
import { HttpError, NotRecoveredError } from "../errors.js";

/** The subprotocol of our chat sockets: the official frames of AI SDK 7, with a position on each chunk, and pings. */
export const SOCKET_PROTOCOL = "adkwire.chat.v1";

/** A request of the page, with the fields that are read here. */
export type RequestFrame = {
  type: "send" | "resume";
  requestId: string;
  id: string;
  body?: { client?: unknown } | null;
};

/** The page aborts a request. */
export type AbortFrame = { type: "abort"; requestId: string };

/** A frame of a request that the official transport of AI SDK 7 understands. */
export type OfficialFrame =
  | { type: "start" | "end" | "no-active"; requestId: string }
  | { type: "chunk"; requestId: string; sequence: number; chunk: object }
  | { type: "error"; requestId: string; errorText: string };

/** A notice of the server, or of the socket itself, that belongs to no request. */
export type SocketNotice = { level: "info" | "warning" | "error"; code: string; text: string };

/** A frame of a request as the server sends it: chunks have their position as `id`, errors may have a `code`. */
export type StreamFrame = OfficialFrame & { id?: string; code?: string };

/** What an official frame cannot carry: the error of a failed request, and the run that a chunk belongs to. */
export type FrameDetails = { error?: Error | undefined; run?: string | undefined };

/** A frame of a request as the transport gets it. */
export type DeliveredFrame = OfficialFrame & FrameDetails;

/** Any frame of the server. */
export type ServerFrame = StreamFrame | { type: "pong"; timestamp: number } | ({ type: "notice" } & SocketNotice);

const KNOWN = new Set(["start", "chunk", "end", "error", "no-active", "pong", "notice"]);
const LEVELS = ["info", "warning", "error"] as const;
const NO_TEXT = "The server could not answer.";

/** The HTTP status of each error code: a refusal has the same status over HTTP and over a socket. */
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

/** Read a frame of the page; undefined for one that begins or aborts no request. */
export function readClientFrame(data: unknown): RequestFrame | AbortFrame | undefined {
  const frame = typeof data === "string" ? parseJsonObject(data) : undefined;
  if (frame === undefined || typeof frame["requestId"] !== "string") return undefined;
  if (frame["type"] === "abort") return frame as AbortFrame;
  const isRequest = frame["type"] === "send" || frame["type"] === "resume";
  return isRequest && typeof frame["id"] === "string" ? (frame as RequestFrame) : undefined;
}

/** Read a frame of the server. One that cannot be read becomes a notice, and the connection stays open. */
export function readServerFrame(data: unknown): ServerFrame {
  if (typeof data !== "string") return unreadable("unknown-frame", "a binary frame");
  const frame = parseJsonObject(data);
  if (frame === undefined || typeof frame["type"] !== "string") return unreadable("malformed-frame", data);
  return knownFrame(frame) ?? unreadable(KNOWN.has(frame["type"]) ? "malformed-frame" : "unknown-frame", data);
}

/** Return the error that an error frame stands for. It is the same as over HTTP: the frame's code decides. */
export function socketError(text: string, code: string | undefined, chatId: string, run: string | undefined): Error {
  if (code === "not-recovered") return new NotRecoveredError(chatId, run);
  return code === undefined ? new Error(text) : new HttpError(STATUSES.get(code) ?? 500, text, { code });
}

function knownFrame(frame: JsonObject): ServerFrame | undefined {
  switch (frame["type"]) {
    case "pong":
      return { type: "pong", timestamp: Number(frame["timestamp"]) };
    case "notice":
      return { type: "notice", level: level(frame), code: stringOf(frame["code"]), text: stringOf(frame["text"]) };
    case "error":
      return errorFrame(frame);
    default:
      return streamFrame(frame);
  }
}

function streamFrame(frame: JsonObject): StreamFrame | undefined {
  const { type, requestId, sequence, chunk, id } = frame;
  if (typeof requestId !== "string") return undefined;
  if (type === "start" || type === "end" || type === "no-active") return { type, requestId };
  if (type !== "chunk" || !isSequence(sequence) || !isJsonObject(chunk)) return undefined;
  return { type, requestId, sequence, chunk, ...(typeof id === "string" && { id }) };
}

/** Read an error frame. One without a request is a notice. */
function errorFrame({ requestId, errorText, code }: JsonObject): ServerFrame {
  if (typeof requestId !== "string") {
    return { type: "notice", level: "error", code: stringOf(code), text: stringOf(errorText) };
  }
  const text = stringOf(errorText) || NO_TEXT;
  return { type: "error", requestId, errorText: text, ...(typeof code === "string" && { code }) };
}

function unreadable(code: string, data: string): ServerFrame {
  return { type: "notice", level: "warning", code, text: `Ignored a frame of the server: ${data.slice(0, 200)}` };
}

function level(frame: JsonObject): SocketNotice["level"] {
  return LEVELS.find((name) => name === frame["level"]) ?? "info";
}

function isSequence(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
