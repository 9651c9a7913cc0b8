import { randomUUID } from "node:crypto";
import * as ai7 from "ai-7-0-169";
import { inject, test as base } from "vitest";
import { WebSocket } from "ws";
import { resilientWebSocket } from "../../src/socket/resilient-web-socket.js";
import { WebSocketChatTransport } from "../../src/socket/web-socket-chat-transport.js";
import { CuttingProxy } from "../helpers/cutting-proxy.js";
import { majors } from "../helpers/majors.js";
import { memoryChat } from "../helpers/memory-chat.js";
import { seededRandom } from "../helpers/seeded-random.js";

type Chat = ReturnType<typeof memoryChat>;
type Message = ai7.UIMessage;

/** A chat of either major with the transport that its pages use, and a proxy between it and the server. */
class Line {
  private readonly closing: { close(): void }[] = [];

  constructor(readonly proxy: CuttingProxy) {}

  chat({ version, ai }: (typeof majors)[number], id: string): Chat {
    const Transport = version === "6.0.326" ? WebSocketChatTransport : ai7.WebSocketChatTransport;
    const transport = new Transport<Message>({
      url: `${this.proxy.url}/api/chat/ws`,
      webSocket: resilientWebSocket({ WebSocket, backoff: { initial: 5, max: 50, attempts: 1000 } }),
      params: { client: `ai/${version}` },
    });
    this.closing.push(transport);
    const settled = ai7.lastAssistantMessageIsCompleteWithApprovalResponses;
    return memoryChat(ai, { id, transport, sendAutomaticallyWhen: settled });
  }

  async close(): Promise<void> {
    for (const transport of this.closing) transport.close();
    await this.proxy.stop();
  }
}

const test = base.extend<{ line: Line }>({
  line: async ({}, use) => {
    const line = new Line(await CuttingProxy.start(inject("serverUrl")));
    await use(line);
    await line.close();
  },
});

test.concurrent.for(majors)("ai $version: a conversation with lost connections ends like one without", async (major, { line, expect }) => {
  const random = seededRandom(1);
  const whole = await conversation(line.chat(major, randomUUID()));
  expect(line.proxy.connections).toBe(1);
  line.proxy.fates = Array.from({ length: 25 }, () => 300 + Math.floor(random() * 1200));
  const id = randomUUID();
  const chat = line.chat(major, id);
  const cut = await conversation(chat);
  expect([chat.status, chat.error]).toEqual(["ready", undefined]);
  expect(normalized(cut)).toEqual(normalized(whole));
  expect(line.proxy.cuts).toBeGreaterThan(5);
  expect((await history(id)).messages.map((message) => message.id)).toEqual(cut.map((message) => message.id));
});

test.concurrent.for(majors)("ai $version: 25 lost connections in one message", async (major, { line, expect }) => {
  const random = seededRandom(25);
  line.proxy.fates = Array.from({ length: 25 }, () => 300 + Math.floor(random() * 400));
  const chat = line.chat(major, randomUUID());
  await chat.sendMessage({ text: "count to 80" });
  expect([chat.status, chat.error]).toEqual(["ready", undefined]);
  const text = chat.lastMessage?.parts.map((part) => (part.type === "text" ? part.text : "")).join("");
  expect(text?.match(/\d+/g)).toEqual(Array.from({ length: 80 }, (_, n) => String(n + 1)));
  expect(line.proxy.cuts).toBe(25);
});

test.concurrent.for(majors)("ai $version: stop without a connection", async (major, { line, expect }) => {
  const id = randomUUID();
  const chat = line.chat(major, id);
  const sending = chat.sendMessage({ text: "count to 900" });
  await until(() => chat.status === "streaming");
  line.proxy.cut("refuse", "refuse", "refuse");
  await chat.stop();
  await sending;
  expect(chat.error).toBeUndefined();
  await until(async () => (await history(id)).active === null);
  await chat.sendMessage({ text: "count to 3" });
  expect([chat.status, JSON.stringify(chat.lastMessage)]).toEqual(["ready", expect.stringContaining("3")]);
});

test.concurrent.for(majors)("ai $version: a page that is loaded resumes the run of another one", async (major, { line, expect }) => {
  const id = randomUUID();
  const chat = line.chat(major, id);
  const sending = chat.sendMessage({ text: "count to 40" });
  await until(() => chat.status === "streaming");
  line.proxy.fates = [700, 700];
  const other = line.chat(major, id);
  await Promise.all([sending, other.resumeStream()]);
  expect(other.messages).toEqual([chat.lastMessage]);
});

async function conversation(chat: Chat): Promise<Message[]> {
  await chat.sendMessage({ text: "count to 12" });
  await chat.sendMessage({ text: "weather in Tokyo and pay 10 to Ann" });
  await approve(chat);
  await chat.sendMessage({ text: "count to 3" });
  return chat.messages;
}

/** Approve the payment and wait until the message goes on: the chat sends the answer by itself. */
async function approve(chat: Chat): Promise<void> {
  const payment = (): { state?: string; approval?: { id: string } } | undefined =>
    chat.lastMessage?.parts.find((part) => part.type === "tool-process_payment") as ai7.DynamicToolUIPart | undefined;
  await chat.addToolApprovalResponse({ id: payment()?.approval?.id ?? "", approved: true });
  await until(() => payment()?.state !== "approval-responded" && chat.status !== "streaming");
}

async function history(id: string): Promise<{ messages: Message[]; active: unknown }> {
  const response = await fetch(`${inject("serverUrl")}/api/chats/${id}`);
  return (await response.json()) as { messages: Message[]; active: unknown };
}

/** The messages of a chat, with fixed names for the ids that differ from chat to chat. */
function normalized(messages: Message[]): unknown {
  const ids = [...new Set(messages.flatMap((message) => [message.id, ...message.parts.flatMap(idsOf)]))];
  const names = new Map(ids.map((id, n) => [id, `id-${n}`]));
  const named = (_: string, value: unknown): unknown => (typeof value === "string" ? (names.get(value) ?? value) : value);
  return JSON.parse(JSON.stringify(messages, named).replace(/TX-\w+/g, "TX"));
}

function idsOf(part: Message["parts"][number]): string[] {
  const { toolCallId, approval, id } = part as { toolCallId?: string; approval?: { id: string }; id?: string };
  return [toolCallId, approval?.id, id].filter((value) => value !== undefined);
}

/** Check a condition until it holds: the chats of the `ai` packages have no event for their changes. */
async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 10));
}
