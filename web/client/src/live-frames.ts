/** Our subprotocol of a live socket: that of a chat socket, and voice. */
export const LIVE_PROTOCOL = "adkwire.live.v1";
const VERSION = "1.0";

/** What the agent is doing. */
export type LiveState = "listening" | "thinking" | "speaking" | "waiting";

export type AudioFormat = { rate: number; channels: number; bitDepth: number };

/** What the server says first on every connection. */
export type LiveReady = {
  chat: string;
  /** What is being written, if anything is. */
  run: string | null;
  generation: number;
  audio: { input: AudioFormat; output: AudioFormat };
  /** Whether this goes on with what was there before. */
  resumed: boolean;
};

/** A turn that the server has begun: somebody spoke, or the agent has something to say. */
export type TurnFrame = { requestId: string; messageId: string; userMessageId: string; origin: "voice" | "server" };

/** What was being said is not heard to its end. */
export type LiveInterruption = {
  requestId: string;
  /** Sound of older generations is void. */
  generation: number;
  /** The text that was heard, when the rest is void. */
  kept?: string;
};

/** A call was answered, or taken back. */
export type CallSettled = {
  toolCallId: string;
  /** The question, when it was asked about: a later call may have the same id. */
  approvalId?: string;
  state: string;
};

export type LiveFrame =
  | ({ type: "ready" } & LiveReady)
  | ({ type: "turn" } & TurnFrame)
  | { type: "user-transcript"; userMessageId: string; text: string; final: boolean }
  | { type: "state"; state: LiveState }
  | ({ type: "interrupted" } & LiveInterruption)
  | ({ type: "call-settled" } & CallSettled)
  | { type: "failed"; requestId: string | undefined; toolCallId: string | undefined; code: string; text: string };

/** What is sent about a call. */
export type ToolResultData = {
  toolCallId: string;
  /** The question that is answered, when it is known: a later call may have the same id. */
  approvalId?: string;
  status?: "approved" | "rejected";
  result?: unknown;
  error?: string;
  reason?: string;
};

type Fields = Record<string, unknown>;

const STATES = ["listening", "thinking", "speaking", "waiting"] as const;
const INPUT = { rate: 16_000, channels: 1, bitDepth: 16 };
const OUTPUT = { ...INPUT, rate: 24_000 };

/** Write a frame that only a live socket knows. */
export function liveFrame(type: string, fields: object = {}): string {
  return JSON.stringify({ type, version: VERSION, timestamp: Date.now(), ...fields });
}

/** Read a frame that only a live socket knows; undefined for all others. */
export function readLiveFrame(data: string): LiveFrame | undefined {
  const frame = fieldsOf(data);
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

function ready(frame: Fields): LiveReady {
  const { chat, run, generation, audio, resumed } = frame;
  const { input, output } = isFields(audio) ? audio : {};
  return {
    chat: text(chat), run: typeof run === "string" ? run : null, generation: Number(generation) || 0,
    audio: { input: format(input, INPUT), output: format(output, OUTPUT) }, resumed: resumed === true,
  };
}

function format(value: unknown, otherwise: AudioFormat): AudioFormat {
  return isFields(value) ? { ...otherwise, ...(value as Partial<AudioFormat>) } : otherwise;
}

function turn(frame: Fields): LiveFrame | undefined {
  const { requestId, messageId, userMessageId, origin } = frame;
  if (typeof requestId !== "string") return undefined;
  return {
    type: "turn", requestId, messageId: text(messageId), userMessageId: text(userMessageId),
    origin: origin === "voice" ? "voice" : "server",
  };
}

function transcript({ userMessageId, text: said, final }: Fields): LiveFrame {
  return { type: "user-transcript", userMessageId: text(userMessageId), text: text(said), final: final === true };
}

function state(frame: Fields): LiveFrame | undefined {
  const known = STATES.find((name) => name === frame["state"]);
  return known && { type: "state", state: known };
}

function interruption({ requestId, generation, kept }: Fields): LiveInterruption {
  const what = { requestId: text(requestId), generation: Number(generation) || 0 };
  return typeof kept === "string" ? { ...what, kept } : what;
}

function callSettled({ toolCallId, approvalId, state: became }: Fields): CallSettled {
  const what = { toolCallId: text(toolCallId), state: text(became) };
  return typeof approvalId === "string" ? { ...what, approvalId } : what;
}

function failed({ requestId, toolCallId, code, text: said, errorText }: Fields): LiveFrame {
  const about = { requestId: text(requestId) || undefined, toolCallId: text(toolCallId) || undefined };
  return { type: "failed", ...about, code: text(code), text: text(errorText) || text(said) };
}

function fieldsOf(data: string): Fields {
  try {
    const value: unknown = JSON.parse(data);
    return isFields(value) ? value : {};
  } catch {
    return {};
  }
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
