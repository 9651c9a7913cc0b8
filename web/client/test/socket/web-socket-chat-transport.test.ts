import { type UIMessage, WebSocketChatTransport as OfficialTransport } from "ai-7-0-169";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { HttpError, NotRecoveredError } from "../../src/errors.js";
import { resilientWebSocket } from "../../src/socket/resilient-web-socket.js";
import {
  WebSocketChatTransport, type WebSocketChatTransportOptions,
} from "../../src/socket/web-socket-chat-transport.js";
import { majors } from "../helpers/majors.js";
import { memoryChat } from "../helpers/memory-chat.js";
import { FORGOTTEN, ScriptedSocketServer } from "../helpers/scripted-socket-server.js";
import { seededRandom } from "../helpers/seeded-random.js";
import { QUICK } from "../helpers/socket-watch.js";

let server: ScriptedSocketServer;
const closing: { close(): void }[] = [];
const webSocket = resilientWebSocket({ WebSocket, backoff: { ...QUICK, attempts: 6 } });

beforeEach(async () => {
  server = await ScriptedSocketServer.start();
});

afterEach(async () => {
  for (const transport of closing.splice(0)) transport.close();
  await server.stop();
});

function ported(options: Partial<WebSocketChatTransportOptions<UIMessage>> = {}): WebSocketChatTransport {
  const transport = new WebSocketChatTransport({ url: server.url, webSocket, ...options });
  closing.push(transport);
  return transport;
}

function official(): OfficialTransport<UIMessage> {
  const transport = new OfficialTransport<UIMessage>({ url: server.url, webSocket });
  closing.push(transport);
  return transport;
}

/** A chat of either major with the transport that its pages use. */
function chatOf({ version, ai }: (typeof majors)[number], id: string): ReturnType<typeof memoryChat> {
  const transport = version === "6.0.326" ? ported() : official();
  return memoryChat(ai, { id, generateId: counted(), transport });
}

function counted(): () => string {
  let count = 0;
  return () => `id-${(count += 1)}`;
}

function send(transport: WebSocketChatTransport, extra: object = {}): ReturnType<WebSocketChatTransport["sendMessages"]> {
  const messages: UIMessage[] = [{ id: "q", role: "user", parts: [{ type: "text", text: "hello" }] }];
  const common = { chatId: "c", trigger: "submit-message", messageId: undefined, abortSignal: undefined } as const;
  return transport.sendMessages({ ...common, messages, ...extra });
}

async function all<T>(stream: ReadableStream<T> | null): Promise<T[]> {
  const chunks: T[] = [];
  for await (const chunk of stream ?? []) chunks.push(chunk);
  return chunks;
}

describe.each(majors)("a chat of ai $version", (major) => {
  const make = (id: string): ReturnType<typeof memoryChat> => chatOf(major, id);

  it("uses one socket for all turns of a chat", async () => {
    const chat = make("c");
    await chat.sendMessage({ text: "one" });
    await chat.sendMessage({ text: "two" });
    expect(chat.messages.map((message) => message.role)).toEqual(["user", "assistant", "user", "assistant"]);
    expect([server.connections, chat.status, chat.error]).toEqual([1, "ready", undefined]);
  });

  it.each([1, 2])("seed %i: with lost connections ends like without", async (seed) => {
    const random = seededRandom(seed);
    server.words = 40;
    const whole = make("whole");
    await whole.sendMessage({ text: "tell" });
    server.faults = Array.from({ length: 8 }, () => ({ cutAfter: Math.floor(random() * 12) }));
    server.runs.clear();
    const cut = make("cut");
    await cut.sendMessage({ text: "tell" });
    expect(cut.error).toBeUndefined();
    expect(cut.messages).toEqual(whole.messages);
    expect(server.connections).toBeGreaterThan(3);
  });

  it("stops, also without a connection", async () => {
    server.limit = 8;
    const chat = make("c");
    const sending = chat.sendMessage({ text: "tell" });
    await server.until(() => [...server.runs.values()][0]?.written === 8);
    server.faults = [{ status: 503 }, { status: 503 }];
    server.cut();
    await server.until(() => server.sockets.size === 0);
    await chat.stop();
    await sending;
    await server.until(() => [...server.runs.values()][0]?.stopped === true);
    expect([chat.status, chat.error]).toEqual(["ready", undefined]);
    server.limit = Number.POSITIVE_INFINITY;
    await chat.sendMessage({ text: "more" });
    expect(chat.messages.at(-1)).toMatchObject({ role: "assistant", parts: [{}, { state: "done" }] });
  });

  it("resumes the whole message on load, also when the connection is lost", async () => {
    server.limit = 8;
    const chat = make("c");
    const sending = chat.sendMessage({ text: "tell" });
    await server.until(() => [...server.runs.values()][0]?.written === 8);
    server.faults = [{ cutAfter: 4 }];
    const other = make("c");
    const resuming = other.resumeStream();
    await server.until(() => server.connections === 3);
    server.allow(Number.POSITIVE_INFINITY);
    await Promise.all([sending, resuming]);
    expect(other.messages).toEqual([chat.messages.at(-1)]);
  });

  it("resumes nothing when no run is active", async () => {
    const chat = make("c");
    await chat.resumeStream();
    expect([chat.status, chat.messages, chat.error]).toEqual(["ready", [], undefined]);
  });

  it("gets the reason of a refusal", async () => {
    server.faults = [{ close: { code: 1008, reason: "not you", after: 3 } }];
    const chat = make("c");
    await chat.sendMessage({ text: "tell" });
    expect([chat.status, chat.error?.message]).toEqual(["error", "The server refused the connection: not you"]);
    await chat.sendMessage({ text: "again" });
    expect(chat.status).toBe("ready");
  });

  it("gets the reason when there was never a connection", async () => {
    server.faults = [{ status: 403 }];
    const chat = make("c");
    await chat.sendMessage({ text: "tell" });
    expect(chat.error?.message).toContain("(code 1008: The server refused the connection: HTTP 403)");
  });

  it("gets an error that it takes for a lost network, and can resume", async () => {
    server.limit = 5;
    let disconnected = false;
    const chat = make("c");
    Object.assign(chat, { onFinish: (end: { isDisconnect: boolean }) => void (disconnected = end.isDisconnect) });
    const sending = chat.sendMessage({ text: "tell" });
    await server.until(() => [...server.runs.values()][0]?.written === 5);
    server.faults = Array.from({ length: 8 }, () => ({ status: 503 }));
    server.cut();
    await sending;
    expect([chat.status, disconnected]).toEqual(["error", true]);
  });
});

describe("the transport", () => {
  it("writes the frames of the official transport", async () => {
    for (const major of majors) {
      await chatOf(major, "c").sendMessage({ text: "x" }, { body: { a: 1 }, headers: { "X-B": "2" } });
      await chatOf(major, "c").resumeStream();
    }
    const [send6, resume6, send7, resume7] = server.frames.map(({ requestId: _, ...frame }) => frame);
    expect(send6).toEqual(send7);
    expect(resume6).toEqual(resume7);
    expect(send6).toMatchObject({ headers: { "x-b": "2" }, body: { a: 1 } });
  });

  it("adds its own headers, body and parameters, resolved anew; those of the call win", async () => {
    let count = 0;
    const transport = ported({
      params: async () => ({ client: "ai/6.0.326" }),
      headers: () => ({ Authorization: `t${(count += 1)}`, a: "transport" }),
      body: { x: 1, y: 1 },
    });
    await all(await send(transport, { headers: { A: "call" }, body: { y: 2 } }));
    await all(await send(transport));
    expect(server.frames.map(({ headers, body }) => [headers, body])).toEqual([
      [{ authorization: "t1", a: "call" }, { x: 1, y: 2 }],
      [{ authorization: "t2", a: "transport" }, { x: 1, y: 1 }],
    ]);
    expect(server.paths).toEqual(["/api/chat/ws?client=ai%2F6.0.326"]);
  });

  it("lets requests be prepared", async () => {
    const transport = ported({
      prepareSendMessagesRequest: ({ messages, requestMetadata }) => ({
        messages: messages.slice(-1),
        body: { seen: requestMetadata },
        headers: new Headers({ P: "1" }),
      }),
      prepareReconnectToStreamRequest: async ({ id }) => ({ body: { id } }),
    });
    await all(await send(transport, { metadata: "m" }));
    await transport.reconnectToStream({ chatId: "c" });
    expect(server.frames[0]).toMatchObject({ body: { seen: "m" }, headers: { p: "1" }, metadata: "m" });
    expect(server.frames[1]).toMatchObject({ type: "resume", body: { id: "c" }, headers: {} });
  });

  it("accepts an http address", async () => {
    expect(await all(await send(ported({ url: server.url.replace("ws:", "http:") })))).toHaveLength(server.words + 6);
  });

  it("carries many requests on one socket", async () => {
    const transport = ported();
    const streams = await Promise.all(["a", "b", "c"].map((chatId) => send(transport, { chatId })));
    const lengths = (await Promise.all(streams.map(all))).map((chunks) => chunks.length);
    expect(lengths).toEqual(lengths.map(() => server.words + 6));
    expect(server.connections).toBe(1);
  });

  it("is aborted by a signal: before, while connecting, and in the middle of a message", async () => {
    const transport = ported();
    await expect(send(transport, { abortSignal: AbortSignal.abort() })).rejects.toThrow("aborted");
    server.faults = [{ status: 0 }];
    const early = new AbortController();
    const waiting = send(transport, { abortSignal: early.signal });
    await server.until(() => server.connections === 1);
    early.abort();
    await expect(waiting).rejects.toThrow("aborted");
    transport.close();
    server.limit = 4;
    const late = new AbortController();
    const stream = await send(transport, { abortSignal: late.signal });
    await server.until(() => server.frames.length === 1);
    late.abort();
    await expect(all(stream)).rejects.toMatchObject({ name: "AbortError" });
    await server.until(() => server.frames.at(-1)?.type === "abort");
  });

  it("aborts a stream that is cancelled, and a resume that is not answered yet", async () => {
    server.limit = 4;
    const transport = ported();
    await (await send(transport)).cancel();
    await server.until(() => server.frames.at(-1)?.type === "abort");
    server.faults = [{ silent: true }];
    transport.close();
    const controller = new AbortController();
    const resuming = transport.reconnectToStream({ chatId: "c", abortSignal: controller.signal });
    await server.until(() => server.frames.at(-1)?.type === "resume");
    controller.abort();
    await expect(resuming).rejects.toMatchObject({ name: "AbortError" });
  });

  it.each([
    ["too-many", { status: 429, code: "too-many", message: "Slow down." }],
    ["not-yet-known", { status: 500, code: "not-yet-known", message: "Slow down." }],
  ])("rejects with an error of the server: %s", async (code, error) => {
    server.faults = [{ refusal: { errorText: "Slow down.", code } }];
    const refused = await send(ported()).then(all).catch((reason: unknown) => reason);
    expect(refused).toBeInstanceOf(HttpError);
    expect(refused).toMatchObject(error);
  });

  it("rejects with an error that has no code and no text", async () => {
    server.faults = [{ refusal: {} }];
    await expect(send(ported()).then(all)).rejects.toThrow("The server could not answer.");
  });

  it("reports a message that is not recovered, to the page and to the chat", async () => {
    const lost: NotRecoveredError[] = [];
    server.faults = [{ cutAfter: 5 }, { refusal: FORGOTTEN }];
    const refused = await send(ported({ onNotRecovered: (error) => lost.push(error) })).then(all).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(NotRecoveredError);
    expect(refused).toMatchObject({ chatId: "c", run: "answer-0" });
    expect(lost).toEqual([refused]);
  });

  it("can be closed at any time, any number of times, and opened again", async () => {
    const transport = ported();
    transport.close();
    server.limit = 4;
    const stream = await send(transport);
    transport.close();
    transport.close();
    await expect(all(stream)).rejects.toThrow("transport was closed");
    server.faults = [{ status: 0 }];
    const early = send(transport);
    await server.until(() => server.connections === 2);
    transport.close();
    await expect(early).rejects.toThrow("transport was closed");
    await server.until(() => server.sockets.size === 0);
    server.allow(Number.POSITIVE_INFINITY);
    expect(await all(await send(transport))).toHaveLength(server.words + 6);
  });

  it("does not connect when it is closed before its address is known", async () => {
    let give: (params: Record<string, string>) => void = () => {};
    let known: () => void = () => {};
    const asked = new Promise<void>((resolve) => (known = resolve));
    const params = (): Promise<Record<string, string>> => {
      known();
      return new Promise((resolve) => (give = resolve));
    };
    const transport = ported({ params });
    const sending = send(transport);
    await asked;
    transport.close();
    give({});
    await expect(sending).rejects.toThrow("transport was closed");
    await all(await send(ported()));
    await server.until(() => server.sockets.size === 1);
  });

  it("works with a plain WebSocket, and fails when that does", async () => {
    server.limit = 4;
    const stream = await send(ported({ webSocket: WebSocket, protocols: "adkwire.chat.v1" }));
    await server.until(() => [...server.runs.values()][0]?.written === 4);
    server.cut();
    await expect(all(stream)).rejects.toThrow("network connection");
  });

  it("reports an invalid address", async () => {
    await expect(send(ported({ url: "/relative" }))).rejects.toThrow("Invalid URL");
  });
});
