import { isJsonObject, type JsonObject, parseJsonObject, stringOf } from "../common/json-object.js";

/** The subprotocol of our live sockets: that of our chat sockets, with voice. */
export const LIVE_PROTOCOL = "adkwire.live.v1";
const VERSION = "1.0";

/** What the agent is doing. */
export type LiveState = "listening" | "thinking" | "speaking" | "waiting";

/** The format of audio: samples per second, channels, bits per sample. */
export type AudioFormat = { rate: number; channels: number; bitDepth: number };

/** The first frame of the server on every connection. */
export type LiveReady = {
  chat: string;
  /** The run that is active, if one is. */
  run: string | null;
  /** The newest generation. Older audio must not be played; the next speech gets a higher one. */
  generation: number;
  audio: { input: AudioFormat; output: AudioFormat };
  /** True when the conversation of an earlier connection goes on. */
  resumed: boolean;
};

/** A turn that the server has begun, because the user has spoken or because the agent has more to say. */
export type TurnFrame = { requestId: string; messageId: string; userMessageId: string; origin: "voice" | "server" };

/** An interruption: the rest of the agent's voice is not played. */
export type LiveInterruption = {
  requestId: string;
  /** Audio of older generations is not played. */
  generation: number;
  /** The text that was played before the interruption; undefined when the whole text is kept. */
  kept?: string;
};

/** A call that was answered or sealed. */
export type CallSettled = {
  toolCallId: string;
  /** The id of the approval request, if the call had one: a later call may have the same `toolCallId`. */
  approvalId?: string;
  state: string;
};

/** A frame of the server that only live sockets have. `failed` is an error frame, of a request or of an answer. */
export type LiveFrame =
  | ({ type: "ready" } & LiveReady)
  | ({ type: "turn" } & TurnFrame)
  | { type: "user-transcript"; userMessageId: string; text: string; final: boolean }
  | { type: "state"; state: LiveState }
  | ({ type: "interrupted" } & LiveInterruption)
  | ({ type: "call-settled" } & CallSettled)
  | { type: "failed"; requestId: string | undefined; toolCallId: string | undefined; code: string; text: string };

/** An answer to a call, as it is sent: a verdict (`status`) or an output (`result` or `error`). */
export type ToolResultData = {
  toolCallId: string;
  /** The id of the approval request, if it is known: a later call may have the same `toolCallId`. */
  approvalId?: string;
  status?: "approved" | "rejected";
  result?: unknown;
  error?: string;
  reason?: string;
};

const STATES = ["listening", "thinking", "speaking", "waiting"] as const;
const INPUT = { rate: 16_000, channels: 1, bitDepth: 16 };
const OUTPUT = { ...INPUT, rate: 24_000 };

/** Write a frame that only live sockets have. */
export function liveFrame(type: string, fields: object = {}): string {
  return JSON.stringify({ type, version: VERSION, timestamp: Date.now(), ...fields });
}

/** Read a frame that only live sockets have; undefined for any other. */
export function readLiveFrame(data: string): LiveFrame | undefined {
  const frame = parseJsonObject(data) ?? {};
  switch (frame["type"]) {
    case "ready":
      return { type: "ready", ...ready(frame) };
    case "turn":
      return turn(frame);
    case "user-transcript":
      return transcript(frame);
    case "state":
      return state(frame);
    case "interrupted":
      return { type: "interrupted", ...interruption(frame) };
    case "call-settled":
      return { type: "call-settled", ...callSettled(frame) };
    case "error":
      return failed(frame);
    default:
      return undefined;
  }
}

function ready(frame: JsonObject): LiveReady {
  const { chat, run, generation, audio, resumed } = frame;
  const { input, output } = isJsonObject(audio) ? audio : {};
  return {
    chat: stringOf(chat), run: typeof run === "string" ? run : null, generation: Number(generation) || 0,
    audio: { input: format(input, INPUT), output: format(output, OUTPUT) }, resumed: resumed === true,
  };
}

function format(value: unknown, defaults: AudioFormat): AudioFormat {
  return isJsonObject(value) ? { ...defaults, ...(value as Partial<AudioFormat>) } : defaults;
}

function turn(frame: JsonObject): LiveFrame | undefined {
  const { requestId, messageId, userMessageId, origin } = frame;
  if (typeof requestId !== "string") return undefined;
  return {
    type: "turn", requestId, messageId: stringOf(messageId), userMessageId: stringOf(userMessageId),
    origin: origin === "voice" ? "voice" : "server",
  };
}

function transcript({ userMessageId, text, final }: JsonObject): LiveFrame {
  const fields = { userMessageId: stringOf(userMessageId), text: stringOf(text), final: final === true };
  return { type: "user-transcript", ...fields };
}

function state(frame: JsonObject): LiveFrame | undefined {
  const known = STATES.find((name) => name === frame["state"]);
  return known && { type: "state", state: known };
}

function interruption({ requestId, generation, kept }: JsonObject): LiveInterruption {
  const fields = { requestId: stringOf(requestId), generation: Number(generation) || 0 };
  return typeof kept === "string" ? { ...fields, kept } : fields;
}

function callSettled({ toolCallId, approvalId, state }: JsonObject): CallSettled {
  const fields = { toolCallId: stringOf(toolCallId), state: stringOf(state) };
  return typeof approvalId === "string" ? { ...fields, approvalId } : fields;
}

function failed({ requestId, toolCallId, code, text, errorText }: JsonObject): LiveFrame {
  const about = { requestId: stringOf(requestId) || undefined, toolCallId: stringOf(toolCallId) || undefined };
  return { type: "failed", ...about, code: stringOf(code), text: stringOf(errorText) || stringOf(text) };
}
