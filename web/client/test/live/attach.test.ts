import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { attach } from "../../src/live/attach.js";
import type { LiveChatTransportOptions } from "../../src/live/live-chat-transport-options.js";
import { LiveChatTransport } from "../../src/live/live-chat-transport.js";
import { sendAutomaticallyWhenSettled } from "../../src/tools/send-automatically-when-settled.js";
import { majors } from "../helpers/majors.js";
import { memoryChat } from "../helpers/memory-chat.js";
import { textOf } from "../helpers/messages.js";
import { ScriptedSocketServer } from "../helpers/scripted-socket-server.js";

const CALL = { type: "tool-pay", toolCallId: "c", state: "approval-requested", input: {}, approval: { id: "a" } } as const;
const HISTORY = [
  { id: "u", role: "user" as const, parts: [{ type: "text" as const, text: "pay" }] },
  { id: "m", role: "assistant" as const, parts: [{ type: "step-start" as const }, CALL] },
];
const CHUNKS = [
  { type: "start", messageId: "m" },
  { type: "start-step" },
  { type: "tool-input-available", toolCallId: "c", toolName: "pay", input: {} },
  { type: "tool-approval-request", toolCallId: "c", approvalId: "a" },
  { type: "tool-output-available", toolCallId: "c", output: "paid" },
  { type: "finish-step" },
  { type: "start-step" },
  { type: "text-start", id: "t" },
  { type: "text-delta", id: "t", delta: "Paid." },
  { type: "text-end", id: "t" },
  { type: "finish-step" },
  { type: "finish" },
];
const TURN = { type: "turn", requestId: "t", messageId: "m", userMessageId: "u", origin: "server" };
const EXECUTED = { type: "call-settled", toolCallId: "c", approvalId: "a", state: "executed" };
const START = { type: "start", requestId: "t" };
const CHUNK_FRAMES = framesOf("t", CHUNKS);
const END = { type: "end", requestId: "t" };
/** A model that numbers its calls anew in each turn, and whose connection is lost: the call is pending, the message ends. */
const ASKED_AGAIN = [
  { type: "start", messageId: "m2" },
  { type: "start-step" },
  { type: "tool-input-available", toolCallId: "c", toolName: "pay", input: { amount: 1000 } },
  { type: "tool-approval-request", toolCallId: "c", approvalId: "a2" },
  { type: "finish-step" },
  { type: "finish" },
];
const AGAIN = [
  { ...TURN, requestId: "t2", messageId: "m2", userMessageId: "u2", origin: "voice" },
  ...framesOf("t2", ASKED_AGAIN),
  { type: "end", requestId: "t2" },
];

function framesOf(requestId: string, chunks: object[]): object[] {
  return chunks.map((chunk, sequence) => ({ type: "chunk", requestId, sequence, chunk, id: `run-${requestId}:${sequence}` }));
}

/** A turn with a call that the page has to run. */
function offer(requestId: string, messageId: string, amount: number): object[] {
  const chunks = [
    { type: "start", messageId },
    { type: "start-step" },
    { type: "tool-input-start", toolCallId: "c", toolName: "pay" },
    { type: "tool-input-delta", toolCallId: "c", inputTextDelta: JSON.stringify({ amount }) },
    { type: "tool-input-available", toolCallId: "c", toolName: "pay", input: { amount } },
    { type: "finish-step" },
    { type: "finish" },
  ];
  const turn = { ...TURN, requestId, messageId, userMessageId: `of-${messageId}`, origin: "voice" };
  return [turn, ...framesOf(requestId, chunks), { type: "end", requestId }];
}

let server: ScriptedSocketServer;
beforeEach(async () => {
  server = await ScriptedSocketServer.start();
});
afterEach(() => server.stop());

/** The orders in which the frames of the continued message and `call-settled` may come. */
const ORDERS: [string, object[]][] = [
  ["before the turn", [EXECUTED, TURN, START, ...CHUNK_FRAMES, END]],
  ["before the answer", [TURN, EXECUTED, START, ...CHUNK_FRAMES, END]],
  ["before the question", [TURN, START, ...CHUNK_FRAMES.slice(0, 2), EXECUTED, ...CHUNK_FRAMES.slice(2), END]],
  ["after the question", [TURN, START, ...CHUNK_FRAMES.slice(0, 4), EXECUTED, ...CHUNK_FRAMES.slice(4), END]],
];

function page(ai: (typeof majors)[number]["ai"], more: Partial<LiveChatTransportOptions> = {}) {
  const transport = new LiveChatTransport({ url: server.url, chat: "chat", WebSocket, ...more });
  const options = { id: "chat", messages: HISTORY, transport, sendAutomaticallyWhen: sendAutomaticallyWhenSettled };
  return { transport, chat: attach(memoryChat(ai, options), transport as LiveChatTransport<never>) };
}

function push(...frames: object[]): void {
  for (const socket of server.sockets) frames.forEach((frame) => socket.send(JSON.stringify(frame)));
}

function types(): string[] {
  return server.frames.map(({ type }) => type);
}

describe.each(majors)("ai $version: a call that was approved in another page", ({ ai }) => {
  test.each(ORDERS)("is shown as approved, and nothing is sent: call-settled %s", async (_, frames) => {
    const { chat, transport } = page(ai);
    await chat.resumeStream();
    push(...frames);
    await expect.poll(() => [chat.status, textOf(chat.lastMessage)]).toEqual(["ready", "Paid."]);
    expect(chat.lastMessage?.parts[1]).toMatchObject({ state: "output-available", approval: { id: "a", approved: true } });
    expect(types()).toEqual(["resume"]);
    transport.close();
  });
});

describe.each(majors)("ai $version: an answer that the server refuses", ({ ai }) => {
  // If another answer was first, or the call is not pending any more, it is not reopened: its outcome follows.
  test.each([["too-many", "approval-requested"], ["conflict", "approval-responded"], ["not-found", "approval-responded"]])("as %s leaves the call %s", async (code, state) => {
    const errors: string[] = [];
    const { chat, transport } = page(ai, { onError: ({ message }) => errors.push(message) });
    await chat.resumeStream();
    push(TURN, START, ...CHUNK_FRAMES.slice(0, 4));
    await expect.poll(() => [chat.status, chat.lastMessage?.parts[1]]).toMatchObject(["streaming", { state: "approval-requested" }]);
    await chat.addToolApprovalResponse({ id: "a", approved: false });
    await server.until(() => types().includes("tool_result"));
    expect(server.frames.at(-1)).toMatchObject({ data: { toolCallId: "c", approvalId: "a", status: "rejected" } });
    push({ type: "error", code, text: "Not so.", frame: "tool_result", toolCallId: "c" }, ...framesOf("t", [...CHUNKS.slice(0, 4), { type: "text-start", id: "t" }]).slice(4));
    await expect.poll(() => chat.lastMessage?.parts.length).toBe(3);
    expect(errors).toEqual(["Not so."]);
    expect(chat.lastMessage?.parts[1]).toMatchObject({ state });
    transport.close();
  });
});

describe.each(majors)("ai $version: a second call with the id of the first", ({ ai }) => {
  test("is not approved", async () => {
    const { chat, transport } = page(ai);
    await chat.resumeStream();
    push(TURN, START, ...CHUNK_FRAMES.slice(0, 4));
    await expect.poll(() => [chat.status, chat.lastMessage?.parts[1]]).toMatchObject(["streaming", { state: "approval-requested" }]);
    await chat.addToolApprovalResponse({ id: "a", approved: true });
    await server.until(() => types().includes("tool_result"));
    push(EXECUTED, ...CHUNK_FRAMES.slice(4), END, ...AGAIN);
    await expect.poll(() => [chat.status, chat.lastMessage?.id, chat.lastMessage?.parts.length]).toEqual(["ready", "m2", 2]);
    expect(chat.lastMessage?.parts[1]).toMatchObject({ state: "approval-requested", approval: { id: "a2" } });
    // After anything that the chat might send by itself.
    await chat.resumeStream();
    expect(types()).toEqual(["resume", "tool_result", "resume"]);
    transport.close();
  });

  test("is sealed without the first", async () => {
    const { chat, transport } = page(ai);
    await chat.resumeStream();
    push(...AGAIN);
    await expect.poll(() => [chat.status, chat.lastMessage?.id, chat.lastMessage?.parts.length]).toEqual(["ready", "m2", 2]);
    push({ type: "call-settled", toolCallId: "c", approvalId: "a", state: "superseded" });
    await expect.poll(() => chat.messages[1]?.parts[1]).toMatchObject({ state: "output-error" });
    expect(chat.lastMessage?.parts[1]).toMatchObject({ state: "approval-requested" });
    transport.close();
  });

  test("is run once by the page, and so is the first", async () => {
    const offered: unknown[] = [];
    const { chat, transport } = page(ai, { toolCallCallback: ({ input }) => void offered.push(input) });
    await chat.resumeStream();
    push(...offer("t1", "m1", 1), ...offer("t2", "m2", 1000));
    await expect.poll(() => [chat.status, chat.lastMessage?.id, chat.lastMessage?.parts.length]).toEqual(["ready", "m2", 2]);
    // As after a reconnect.
    push(...offer("t3", "m2", 1000));
    await chat.resumeStream();
    expect(offered).toEqual([{ amount: 1 }, { amount: 1000 }]);
    transport.close();
  });
});
