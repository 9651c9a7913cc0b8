import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { attach } from "../src/attach.js";
import { LiveChatTransport } from "../src/live-chat-transport.js";
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
const EXECUTED = { type: "call-settled", toolCallId: "c", state: "executed" };
const START = { type: "start", requestId: "t" };
const SAID = CHUNKS.map((chunk, sequence) => ({ type: "chunk", requestId: "t", sequence, chunk, id: `run:${sequence}` }));
const END = { type: "end", requestId: "t" };

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

describe.each(majors)("ai $version: a call that was approved in another page", ({ ai }) => {
  test.each(ORDERS)("is shown as approved, and nothing is sent: told %s", async (_, frames) => {
    const transport = new LiveChatTransport({ url: server.url, chat: "chat", WebSocket });
    const options = { id: "chat", messages: HISTORY, transport, sendAutomaticallyWhen: sendAutomaticallyWhenSettled };
    const chat = attach(memoryChat(ai, options), transport as LiveChatTransport<never>);
    await chat.resumeStream();
    const [socket] = server.sockets;
    for (const frame of frames) socket?.send(JSON.stringify(frame));
    await expect.poll(() => [chat.status, textOf(chat.lastMessage)]).toEqual(["ready", "Paid."]);
    expect(chat.lastMessage?.parts[1]).toMatchObject({ state: "output-available", approval: { id: "a", approved: true } });
    expect(server.frames.map(({ type }) => type)).toEqual(["resume"]);
    transport.close();
  });
});
