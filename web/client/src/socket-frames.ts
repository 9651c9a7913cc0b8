/** Our subprotocol: the official frames, and on each chunk its place in the run's log. */
export const SOCKET_PROTOCOL = "adkwire.chat.v1";

/** A frame that asks for an answer, as far as it matters here. */
export type RequestFrame = {
  type: "send" | "resume";
  requestId: string;
  id: string;
  body?: { client?: unknown } | null;
};

export type AbortFrame = { type: "abort"; requestId: string };

/** What the official transport understands, and nothing else. */
export type OfficialFrame =
  | { type: "start" | "end" | "no-active"; requestId: string }
  | { type: "chunk"; requestId: string; sequence: number; chunk: object }
  | { type: "error"; requestId: string; errorText: string };

/** A message of the server or of the socket itself that belongs to no request. */
export type SocketNotice = { level: "info" | "warning" | "error"; code: string; text: string };

/** What an answer consists of: the official frames, on chunks their place, on errors the server's word for them. */
export type AnswerFrame = OfficialFrame & { id?: string; code?: string };

/** A frame for the owner. With an error: why the request failed, told apart from others as an official frame cannot. */
export type PassedFrame = OfficialFrame & { error?: Error };

export type ServerFrame = AnswerFrame | { type: "pong"; timestamp: number } | ({ type: "notice" } & SocketNotice);

type Fields = Record<string, unknown>;

const LEVELS = ["info", "warning", "error"] as const;
const UNSAID = "The server could not answer.";

/** Read what the owner sends; anything that is no official request is nobody's business but the server's. */
export function readClientFrame(data: unknown): RequestFrame | AbortFrame | undefined {
  const frame = typeof data === "string" ? parsed(data) : undefined;
  if (frame === undefined || typeof frame["requestId"] !== "string") return undefined;
  if (frame["type"] === "abort") return frame as AbortFrame;
  const asks = frame["type"] === "send" || frame["type"] === "resume";
  return asks && typeof frame["id"] === "string" ? (frame as RequestFrame) : undefined;
}

/** Read a frame of the server. One that cannot be read becomes a notice: it is never worth the connection. */
export function readServerFrame(data: unknown): ServerFrame {
  if (typeof data !== "string") return strange("unknown-frame", "a binary frame");
  const frame = parsed(data);
  if (frame === undefined || typeof frame["type"] !== "string") return strange("malformed-frame", data);
  return known(frame) ?? strange(KNOWN.has(frame["type"]) ? "malformed-frame" : "unknown-frame", data);
}

const KNOWN = new Set(["start", "chunk", "end", "error", "no-active", "pong", "notice"]);

function known(frame: Fields): ServerFrame | undefined {
  switch (frame["type"]) {
    case "pong":
      return { type: "pong", timestamp: Number(frame["timestamp"]) };
    case "notice":
      return { type: "notice", level: level(frame), code: text(frame["code"]), text: text(frame["text"]) };
    case "error":
      return failure(frame);
    default:
      return answer(frame);
  }
}

function answer(frame: Fields): AnswerFrame | undefined {
  const { type, requestId, sequence, chunk, id } = frame;
  if (typeof requestId !== "string") return undefined;
  if (type === "start" || type === "end" || type === "no-active") return { type, requestId };
  if (type !== "chunk" || !isSequence(sequence) || !isFields(chunk)) return undefined;
  return { type, requestId, sequence, chunk, ...(typeof id === "string" && { id }) };
}

function failure(frame: Fields): ServerFrame {
  const { requestId, errorText, code } = frame;
  if (typeof requestId !== "string") {
    return { type: "notice", level: "error", code: text(code), text: text(errorText) };
  }
  return { type: "error", requestId, errorText: text(errorText) || UNSAID, ...(typeof code === "string" && { code }) };
}

function strange(code: string, data: string): ServerFrame {
  return { type: "notice", level: "warning", code, text: `Ignored a frame of the server: ${data.slice(0, 200)}` };
}

function parsed(data: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(data);
    return isFields(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function level(frame: Fields): SocketNotice["level"] {
  return LEVELS.find((name) => name === frame["level"]) ?? "info";
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isSequence(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
