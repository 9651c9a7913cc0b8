import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as ai from "ai-7-0-169";
import { afterAll, beforeAll, expect, inject, test, vi } from "vitest";
import { WebSocket } from "ws";
import { HttpError } from "../src/errors.js";
import { resilientWebSocket } from "../src/socket/resilient-web-socket.js";
import { ResumableSseTransport } from "../src/sse/resumable-sse-transport.js";
import type { ConnectionState } from "../src/sse/run-reader.js";
import { memoryChat } from "./helpers/memory-chat.js";
import { drain, history, sendOptions, userMessage, textOf } from "./helpers/messages.js";
import { Server } from "./helpers/server.js";

const PATIENCE = { timeout: inject("patience"), interval: 10 };
const backoff = { initial: 50, max: 500, attempts: 1000 };

/** A chat, and the states of its connection. */
class Page {
  readonly states: ConnectionState[] = [];
  readonly chat: ai.AbstractChat<ai.UIMessage>;

  constructor(transport?: ai.ChatTransport<ai.UIMessage>) {
    const api = `${server.url}/api/chat`;
    const http = new ResumableSseTransport({ api, backoff, onState: (state) => this.states.push(state) });
    this.chat = memoryChat(ai, { id: randomUUID(), transport: transport ?? http });
  }

  get statuses(): string[] {
    return this.states.map(({ status }) => status);
  }
}

const folder = mkdtempSync(join(tmpdir(), "adkwire-restart-"));
let server: Server;
let socket: ai.WebSocketChatTransport<ai.UIMessage>;
/** Two chats, by HTTP and by a socket, whose runs end with the server, and one that sends while the server is stopping. */
let pages: { http: Page; socket: Page; late: Page };

/** Starting a server takes long, so all tests share one stop and one start. */
beforeAll(async () => {
  server = await Server.start({ folder });
  socket = new ai.WebSocketChatTransport({ url: `${server.url}/api/chat/ws`, webSocket: resilientWebSocket({ WebSocket, backoff }) });
  pages = { http: new Page(), socket: new Page(socket), late: new Page() };
  const dying = [pages.http, pages.socket].map(({ chat }) => chat.sendMessage({ text: "count to 900" }));
  await vi.waitUntil(() => [pages.http, pages.socket].every(({ chat }) => /^1 2/.test(textOf(chat.lastMessage))), PATIENCE);
  const stopping = server.stop();
  // The server is stopping: from here on it refuses new requests.
  await vi.waitUntil(() => fetch(`${server.url}/readyz`).then(({ ok }) => !ok, () => true), PATIENCE);
  const late = pages.late.chat.sendMessage({ text: "count to 3" });
  await vi.waitUntil(() => pages.late.statuses.includes("reconnecting"), PATIENCE);
  await server.kill();
  await stopping;
  server = await Server.start({ folder, port: server.port, env: { ADKWIRE_CHATS_PER_MINUTE: "10" } });
  await Promise.all([...dying, late]);
});

afterAll(async () => {
  socket.close();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

test("a message to a server that is stopping is answered by the next one", async () => {
  const { chat, statuses } = pages.late;
  expect(textOf(chat.lastMessage)).toBe("1 2 3");
  expect(statuses.at(-1)).toBe("connected");
  expect(chat.messages).toEqual((await history(server.url, chat.id)).messages);
});

test.each(["http", "socket"] as const)("a run that ended with its server is read to the end that the next server has written: %s", async (way) => {
  const { chat } = pages[way];
  expect([chat.status, chat.error?.message]).toEqual(["error", expect.stringContaining("The server stopped before this answer was finished")]);
  expect(chat.messages).toEqual((await history(server.url, chat.id)).messages);
  await chat.sendMessage({ text: "count to 2" });
  expect([chat.status, textOf(chat.lastMessage)]).toEqual(["ready", "1 2"]);
});

test("a limit is reported at once, with the time to wait", async () => {
  const transport = new ResumableSseTransport({ api: `${server.url}/api/chat` });
  const [chatId, message] = [randomUUID(), userMessage("count to 1")];
  const refused = await (async () => {
    for (let i = 0; i < 11; i++) await drain(await transport.sendMessages(sendOptions(chatId, message)));
  })().catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(HttpError);
  expect(refused).toMatchObject({ status: 429, retryAfter: expect.any(Number), message: expect.stringMatching(/^[^{]+$/) });
});
