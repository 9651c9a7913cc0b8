import { randomUUID } from "node:crypto";
import { describe, expect, inject, test } from "vitest";
import { chatOptions, type ChatOptionsInput } from "../src/chat-options.js";
import { WebSocketChatTransport } from "../src/socket/web-socket-chat-transport.js";
import { ResumableSseTransport } from "../src/sse/resumable-sse-transport.js";
import { clientTools } from "../src/tools/client-tools.js";
import { sendAutomaticallyWhenSettled } from "../src/tools/send-automatically-when-settled.js";
import { majors } from "./helpers/majors.js";
import { memoryChat } from "./helpers/memory-chat.js";
import { sendOptions, userMessage, textOf } from "./helpers/messages.js";

const url = inject("serverUrl");

/** The addresses that a transport uses for a message and for a resumed stream. */
async function addresses(options: ChatOptionsInput & { mode: "sse" | "gemini" }): Promise<string[]> {
  const seen: string[] = [];
  const fetch = async (input: unknown): Promise<Response> => {
    seen.push(String(input));
    return new Response(null, { status: seen.length === 1 ? 404 : 204 });
  };
  const { transport } = chatOptions({ ...options, transport: { fetch } });
  await transport.sendMessages(sendOptions("c/1", userMessage("hi"))).catch(() => undefined);
  await transport.reconnectToStream({ chatId: "c/1" });
  return seen;
}

/** The address of the socket that a transport opens. */
async function socketAddress(address?: string): Promise<string> {
  const opened = deferred<string>();
  class Told extends EventTarget {
    readyState = 0;
    constructor(url: string | URL) {
      super();
      opened.resolve(String(url));
    }
    send(): void {}
    close(): void {}
  }
  const where = address === undefined ? {} : { url: address };
  const { transport } = chatOptions({ mode: "websocket", chatId: "c", ...where, transport: { webSocket: Told as never } });
  void transport.reconnectToStream({ chatId: "c" }).catch(() => undefined);
  return opened.promise;
}

function deferred<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  return { promise: new Promise<T>((done) => (resolve = done)), resolve: (value) => resolve(value) };
}

test.each([
  [undefined, ["/api/chat", "/api/chat/c%2F1/stream"]],
  ["http://a.example:8000/", ["http://a.example:8000/api/chat", "http://a.example:8000/api/chat/c%2F1/stream"]],
  ["wss://a.example/x", ["https://a.example/x/api/chat", "https://a.example/x/api/chat/c%2F1/stream"]],
])("sse at %s", async (server, expected) => {
  expect(await addresses({ mode: "sse", chatId: "c/1", ...(server && { url: server }) })).toEqual(expected);
});

test("gemini sends to the model, and resumes like every mode", async () => {
  const seen = await addresses({ mode: "gemini", chatId: "c/1", url: "https://a.example" });
  expect(seen).toEqual(["https://a.example/api/gemini", "https://a.example/api/chat/c%2F1/stream"]);
});

test.each([
  ["http://a.example:8000", "ws://a.example:8000/api/chat/ws"],
  ["https://a.example/x/", "wss://a.example/x/api/chat/ws"],
  ["wss://a.example", "wss://a.example/api/chat/ws"],
])("websocket at %s", async (server, expected) => {
  expect(await socketAddress(server)).toBe(expected);
});

test.each(["bogus", "SSE", "", undefined])("the mode %j is refused", (mode) => {
  expect(() => chatOptions({ mode, chatId: "c" } as never)).toThrow(/^mode is "sse", "websocket", "live" or "gemini", not /);
});

describe("the options for useChat", () => {
  const messages = [userMessage("hi")];
  const tools = clientTools({});

  test.each([
    ["sse", ResumableSseTransport],
    ["websocket", WebSocketChatTransport],
  ] as const)("%s", (mode, kind) => {
    const { useChatOptions, transport } = chatOptions({ mode, chatId: "c", messages, tools, url });
    expect(transport).toBeInstanceOf(kind);
    expect(useChatOptions).toEqual({
      id: "c", messages, transport, resume: true, sendAutomaticallyWhen: sendAutomaticallyWhenSettled, onToolCall: tools.onToolCall,
    });
  });

  test("gemini has no tools, so nothing is sent automatically", () => {
    const { useChatOptions, transport } = chatOptions({ mode: "gemini", chatId: "c", tools, resume: false });
    expect(transport).toBeInstanceOf(ResumableSseTransport);
    expect(useChatOptions).toEqual({ id: "c", messages: [], transport, resume: false });
  });
});

describe.each(majors)("ai $version", ({ ai }) => {
  test("reach the agent over HTTP, with a tool of the page", async () => {
    const tools = clientTools({ get_timezone: () => ({ timezone: "UTC", local_time: "2026-11-15T12:00:00Z" }) });
    const { useChatOptions } = chatOptions({ mode: "sse", url, chatId: randomUUID(), tools });
    const chat = memoryChat(ai, useChatOptions);
    tools.pickUp(chat);
    await chat.sendMessage({ text: "what time is it" });
    await expect.poll(() => [chat.status, textOf(chat.lastMessage) !== ""]).toEqual(["ready", true]);
    expect(chat.lastMessage?.parts.filter(({ type }) => type.startsWith("tool-"))).toHaveLength(1);
  });
});
