import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { attach } from "../src/attach.js";
import { LiveChatTransport } from "../src/live-chat-transport.js";
import type { LiveChatTransportOptions } from "../src/live-chat-transport-options.js";
import { sendAutomaticallyWhenSettled } from "../src/send-automatically-when-settled.js";
import { majors } from "./majors.js";
import { memoryChat } from "./memory-chat.js";
import { textOf } from "./pages.js";
import { ScriptedSocketServer } from "./scripted-socket-server.js";

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
const SAID = framesOf("t", CHUNKS);
const END = { type: "end", requestId: "t" };
/** The model numbers its calls anew in each answer, and then its connection is lost: the call waits, the message ends. */
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

/** A turn with a call that the page is to run. */
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

/** Where the news that the call was executed may stand among the frames of the message that goes on. */
const ORDERS: [string, object[]][] = [
  ["before the turn", [EXECUTED, TURN, START, ...SAID, END]],
  ["before the answer", [TURN, EXECUTED, START, ...SAID, END]],
  ["before the question", [TURN, START, ...SAID.slice(0, 2), EXECUTED, ...SAID.slice(2), END]],
  ["behind the question", [TURN, START, ...SAID.slice(0, 4), EXECUTED, ...SAID.slice(4), END]],
];

function page(ai: (typeof majors)[number]["ai"], more: Partial<LiveChatTransportOptions> = {}) {
  const transport = new LiveChatTransport({ url: server.url, chat: "chat", WebSocket, ...more });
  const options = { id: "chat", messages: HISTORY, transport, sendAutomaticallyWhen: sendAutomaticallyWhenSettled };
  return { transport, chat: attach(memoryChat(ai, options), transport as LiveChatTransport<never>) };
}

function say(...frames: object[]): void {
  for (const socket of server.sockets) frames.forEach((frame) => socket.send(JSON.stringify(frame)));
}

function types(): string[] {
  return server.frames.map(({ type }) => type);
}

describe.each(majors)("ai $version: a call that was approved in another page", ({ ai }) => {
  test.each(ORDERS)("is shown as approved, and nothing is sent: told %s", async (_, frames) => {
    const { chat, transport } = page(ai);
    await chat.resumeStream();
    say(...frames);
    await expect.poll(() => [chat.status, textOf(chat.lastMessage)]).toEqual(["ready", "Paid."]);
    expect(chat.lastMessage?.parts[1]).toMatchObject({ state: "output-available", approval: { id: "a", approved: true } });
    expect(types()).toEqual(["resume"]);
    transport.close();
  });
});

describe.each(majors)("ai $version: an answer that is refused", ({ ai }) => {
  // Where another answer was faster, or nothing waits, the card is not open any more: what came of it follows.
  test.each([["too-many", "approval-requested"], ["conflict", "approval-responded"], ["not-found", "approval-responded"]])("as %s leaves the call %s", async (code, state) => {
    const errors: string[] = [];
    const { chat, transport } = page(ai, { onError: ({ message }) => errors.push(message) });
    await chat.resumeStream();
    say(TURN, START, ...SAID.slice(0, 4));
    await expect.poll(() => [chat.status, chat.lastMessage?.parts[1]]).toMatchObject(["streaming", { state: "approval-requested" }]);
    await chat.addToolApprovalResponse({ id: "a", approved: false });
    await server.until(() => types().includes("tool_result"));
    expect(server.frames.at(-1)).toMatchObject({ data: { toolCallId: "c", approvalId: "a", status: "rejected" } });
    say({ type: "error", code, text: "Not so.", frame: "tool_result", toolCallId: "c" }, ...framesOf("t", [...CHUNKS.slice(0, 4), { type: "text-start", id: "t" }]).slice(4));
    await expect.poll(() => chat.lastMessage?.parts.length).toBe(3);
    expect(errors).toEqual(["Not so."]);
    expect(chat.lastMessage?.parts[1]).toMatchObject({ state });
    transport.close();
  });
});

describe.each(majors)("ai $version: a second call with the id of the first", ({ ai }) => {
  test("is approved by nobody", async () => {
    const { chat, transport } = page(ai);
    await chat.resumeStream();
    say(TURN, START, ...SAID.slice(0, 4));
    await expect.poll(() => [chat.status, chat.lastMessage?.parts[1]]).toMatchObject(["streaming", { state: "approval-requested" }]);
    await chat.addToolApprovalResponse({ id: "a", approved: true });
    await server.until(() => types().includes("tool_result"));
    say(EXECUTED, ...SAID.slice(4), END, ...AGAIN);
    await expect.poll(() => [chat.status, chat.lastMessage?.id, chat.lastMessage?.parts.length]).toEqual(["ready", "m2", 2]);
    expect(chat.lastMessage?.parts[1]).toMatchObject({ state: "approval-requested", approval: { id: "a2" } });
    // Behind whatever the chat has to send by itself.
    await chat.resumeStream();
    expect(types()).toEqual(["resume", "tool_result", "resume"]);
    transport.close();
  });

  test("is taken back alone", async () => {
    const { chat, transport } = page(ai);
    await chat.resumeStream();
    say(...AGAIN);
    await expect.poll(() => [chat.status, chat.lastMessage?.id, chat.lastMessage?.parts.length]).toEqual(["ready", "m2", 2]);
    say({ type: "call-settled", toolCallId: "c", approvalId: "a", state: "superseded" });
    await expect.poll(() => chat.messages[1]?.parts[1]).toMatchObject({ state: "output-error" });
    expect(chat.lastMessage?.parts[1]).toMatchObject({ state: "approval-requested" });
    transport.close();
  });

  test("is offered to the page once, and the first once", async () => {
    const offered: unknown[] = [];
    const { chat, transport } = page(ai, { toolCallCallback: ({ input }) => void offered.push(input) });
    await chat.resumeStream();
    say(...offer("t1", "m1", 1), ...offer("t2", "m2", 1000));
    await expect.poll(() => [chat.status, chat.lastMessage?.id, chat.lastMessage?.parts.length]).toEqual(["ready", "m2", 2]);
    // As to a page that comes back.
    say(...offer("t3", "m2", 1000));
    await chat.resumeStream();
    expect(offered).toEqual([{ amount: 1 }, { amount: 1000 }]);
    transport.close();
  });
});
