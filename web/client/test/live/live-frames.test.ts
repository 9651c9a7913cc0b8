import { describe, expect, test } from "vitest";
import { liveFrame, readLiveFrame } from "../../src/live/live-frames.js";

const AUDIO = {
  input: { rate: 16_000, channels: 1, bitDepth: 16 },
  output: { rate: 24_000, channels: 1, bitDepth: 16 },
};

describe("a frame of the server", () => {
  test.each([
    { type: "ready", chat: "c", run: null, generation: 3, audio: AUDIO, resumed: true },
    { type: "turn", requestId: "t", messageId: "m", userMessageId: "u", origin: "voice" },
    { type: "turn", requestId: "t", messageId: "m", userMessageId: "u", origin: "server" },
    { type: "user-transcript", userMessageId: "u", text: "hello", final: false },
    { type: "state", state: "waiting" },
    { type: "interrupted", requestId: "t", generation: 4 },
    { type: "interrupted", requestId: "t", generation: 4, kept: "" },
    { type: "call-settled", toolCallId: "call", state: "superseded" },
    { type: "call-settled", toolCallId: "call", approvalId: "question", state: "executed" },
  ])("$type is read as it is", (frame) => {
    expect(readLiveFrame(JSON.stringify({ ...frame, version: "1.0", more: 1 }))).toEqual(frame);
  });

  test("ready has default values for fields that are missing", () => {
    const frame = { type: "ready", chat: "c", audio: { output: { rate: 48_000 } } };
    const audio = { ...AUDIO, output: { ...AUDIO.output, rate: 48_000 } };
    expect(readLiveFrame(JSON.stringify(frame))).toEqual({ type: "ready", chat: "c", run: null, generation: 0, resumed: false, audio });
  });

  test.each([
    [{ code: "malformed", text: "What?" }, { code: "malformed", text: "What?" }],
    [{ code: "conflict", text: "Too late.", frame: "tool_result", toolCallId: "call" }, { code: "conflict", text: "Too late.", toolCallId: "call" }],
    [{ requestId: "r", errorText: "No." }, { requestId: "r", code: "", text: "No." }],
  ])("the error %j", (frame, failure) => {
    expect(readLiveFrame(JSON.stringify({ type: "error", ...frame }))).toEqual({ type: "failed", ...failure });
  });

  test.each([
    "", "{", "null", "[]", "7", '"ready"', "{}", '{"type":"chunk","requestId":"r"}', '{"type":"pong"}', '{"type":"notice"}',
    '{"type":"turn"}', '{"type":"state","state":"asleep"}',
  ])("%s is no live frame", (data) => expect(readLiveFrame(data)).toBeUndefined());
});

test("a frame of the page has the version of the protocol", () => {
  expect(JSON.parse(liveFrame("interrupt", { reason: "timeout" }))).toEqual({
    type: "interrupt", version: "1.0", timestamp: expect.any(Number), reason: "timeout",
  });
});
