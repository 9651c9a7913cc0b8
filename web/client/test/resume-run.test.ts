import { randomUUID } from "node:crypto";
import type * as Ai from "ai-7-0-169";
import { describe, expect, inject, test } from "vitest";
import { WebSocket } from "ws";
import { chatOptions } from "../src/chat-options.js";
import { NotRecoveredError } from "../src/errors.js";
import { resilientWebSocket } from "../src/socket/resilient-web-socket.js";
import { ResumableSseTransport } from "../src/sse/resumable-sse-transport.js";
import { CuttingProxy } from "./helpers/cutting-proxy.js";
import { majors } from "./helpers/majors.js";
import { memoryChat } from "./helpers/memory-chat.js";
import { drain, history, sendOptions, textOf, userMessage } from "./helpers/messages.js";

const url = inject("serverUrl");
const api = `${url}/api/chat`;
/** The answer to `count to 30`. */
const WHOLE = Array.from({ length: 30 }, (_, index) => index + 1).join(" ");

type History = Awaited<ReturnType<typeof history>>;
type Chat = Ai.AbstractChat<Ai.UIMessage>;
type Page = { chat: Chat; close: () => void };
type Mode = "sse" | "websocket" | "live";

/** Return a history that was loaded while a run was active, and the messages after the end of that run. */
async function loadedBeforeTheEnd(chatId: string): Promise<{ messages: Ai.UIMessage[]; active: { run: string }; now: Ai.UIMessage[] }> {
  const { transport } = chatOptions({ mode: "sse", url, chatId });
  const stream = await transport.sendMessages(sendOptions(chatId, userMessage("count to 900")));
  const { messages, active } = await history(url, chatId);
  await fetch(`${api}/${chatId}/stop`, { method: "POST" });
  await drain(stream);
  const { messages: now, active: still } = await history(url, chatId);
  expect([messages.map(({ role }) => role), now.map(({ role }) => role), still]).toEqual([["user"], ["user", "assistant"], null]);
  expect(active).toEqual({ run: expect.any(String) });
  return { messages, active: active as { run: string }, now };
}

interface PageOptions extends Partial<History> {
  server?: string;
  onNotRecovered?: (error: NotRecoveredError) => void;
}

/** Make a chat with the transport of a mode. It gives up a lost connection at the second attempt. */
function page(ai: typeof Ai, mode: Mode, chatId: string, { server = url, onNotRecovered = () => {}, ...history }: PageOptions): Page {
  const common = { url: server, chatId, ...history };
  const backoff = { initial: 1, max: 1, attempts: 2 };
  const { useChatOptions, transport } =
    mode === "sse" ? chatOptions({ mode, ...common, transport: { backoff, onNotRecovered } })
    : mode === "websocket" ? chatOptions({ mode, ...common, transport: { webSocket: resilientWebSocket({ WebSocket, backoff }), onNotRecovered } })
    : chatOptions({ mode, ...common, transport: { WebSocket, backoff } });
  const chat = memoryChat(ai, useChatOptions as Parameters<typeof memoryChat>[1]);
  return { chat, close: () => ("close" in transport ? transport.close() : undefined) };
}

describe.for(majors)("ai $version", ({ ai, version }) => {
  test.for(["sse", "websocket", "live"] as const)("%s: a run that ended since the history was loaded is shown whole, once", async (mode) => {
    const id = randomUUID();
    const { messages, active, now } = await loadedBeforeTheEnd(id);
    const { chat, close } = page(ai, mode, id, { messages, active });
    await chat.resumeStream();
    expect([chat.status, chat.messages]).toEqual(["ready", now]);
    await chat.resumeStream();
    expect([chat.status, chat.messages]).toEqual(["ready", now]);
    close();
  });

  test.for(["sse", "websocket", "live"] as const)("%s: a message that is sent is newer than the run that was active", async (mode) => {
    const id = randomUUID();
    const { messages, active } = await loadedBeforeTheEnd(id);
    const { chat, close } = page(ai, mode, id, { messages, active });
    await chat.sendMessage({ text: "count to 2" });
    expect(textOf(chat.lastMessage)).toBe("1 2");
    await chat.resumeStream();
    expect([chat.status, textOf(chat.lastMessage)]).toEqual(["ready", "1 2"]);
    close();
  });

  test.for(["sse", "websocket"] as const)("%s: a run that is no longer kept is reported, and is not requested again", async (mode) => {
    const id = randomUUID();
    const lost: NotRecoveredError[] = [];
    const { messages } = await loadedBeforeTheEnd(id);
    const active = { run: "run-of-last-week" };
    const { chat, close } = page(ai, mode, id, { messages, active, onNotRecovered: (error) => lost.push(error) });
    await chat.resumeStream();
    expect(chat.error).toBeInstanceOf(NotRecoveredError);
    expect(lost).toEqual([chat.error]);
    chat.clearError();
    await chat.resumeStream();
    expect([chat.status, chat.error]).toEqual(["ready", undefined]);
    close();
  });

  test.for(["sse", "websocket", "live"] as const)("%s: a reconnect may name the run itself", async (mode) => {
    const id = randomUUID();
    const { messages, active, now } = await loadedBeforeTheEnd(id);
    const { chat, close } = page(ai, mode, id, { messages });
    await chat.resumeStream();
    expect([chat.status, chat.lastMessage?.role]).toEqual(["ready", "user"]);
    await chat.resumeStream({ body: active });
    expect([chat.status, chat.messages]).toEqual(["ready", now]);
    close();
  });

  test.for(["sse", "websocket", "live"] as const)("%s: a run that ended after the transport gave up its connection is shown whole", async (mode) => {
    const [id, proxy] = [randomUUID(), await CuttingProxy.start(url)];
    const { chat, close } = page(ai, mode, id, { server: proxy.url });
    const sending = chat.sendMessage({ text: "count to 30" });
    await expect.poll(() => textOf(chat.lastMessage)).toMatch(/^1 2 /);
    proxy.cut(...Array<"refuse">(20).fill("refuse"));
    await sending;
    expect([chat.status, chat.messages.length]).toEqual(["error", 2]);
    await expect.poll(async () => (await history(url, id)).active).toBeNull();
    proxy.fates = [];
    await chat.resumeStream();
    expect([chat.status, textOf(chat.lastMessage)]).toEqual(["ready", WHOLE]);
    expect(chat.messages).toEqual((await history(url, id)).messages);
    close();
    await proxy.stop();
  });

  test("a stock transport names it in the address", async () => {
    const id = randomUUID();
    const { messages, active, now } = await loadedBeforeTheEnd(id);
    const transport = new ai.DefaultChatTransport<Ai.UIMessage>({
      api,
      prepareReconnectToStreamRequest: ({ api, id, body }) => ({ api: `${api}/${id}/stream?run=${String(body?.["run"] ?? "")}` }),
    });
    const chat = memoryChat(ai, { id, messages, transport });
    await chat.resumeStream();
    expect([chat.status, chat.lastMessage?.role]).toEqual(["ready", "user"]);
    await chat.resumeStream({ body: active });
    expect([chat.status, chat.messages]).toEqual(["ready", now]);
  });

  test.skipIf(version.startsWith("6"))("a stock socket sends it in the body of its frame", async () => {
    const id = randomUUID();
    const { messages, active, now } = await loadedBeforeTheEnd(id);
    const transport = new ai.WebSocketChatTransport<Ai.UIMessage>({ url: `${api}/ws`, webSocket: WebSocket as never });
    const chat = memoryChat(ai, { id, messages, transport });
    await chat.resumeStream();
    expect([chat.status, chat.lastMessage?.role]).toEqual(["ready", "user"]);
    await chat.resumeStream({ body: active });
    expect([chat.status, chat.messages]).toEqual(["ready", now]);
    transport.close();
  });
});

test.each([
  ["/api/chat", "/api/chat/c/stream?run=run-1"],
  ["/api/chat?tenant=a#x", "/api/chat/c/stream?run=run-1&tenant=a#x"],
  ["/api/chat/#x", "/api/chat/c/stream?run=run-1#x"],
])("the address of a run under %s", async (address, expected) => {
  const requested: string[] = [];
  const fetch = async (input: unknown): Promise<Response> => {
    requested.push(String(input));
    return new Response(null, { status: 204 });
  };
  const transport = new ResumableSseTransport({ api: address, fetch, activeRun: "run-1" });
  expect(await transport.reconnectToStream({ chatId: "c" })).toBeNull();
  expect(await transport.reconnectToStream({ chatId: "c" })).toBeNull();
  expect(requested).toEqual([expected, expected.replace(/run=run-1&|\?run=run-1(?!&)/, "")]);
});
