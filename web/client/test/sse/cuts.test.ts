import { randomUUID } from "node:crypto";
import type { UIMessageChunk } from "ai";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { ResumableSseTransport } from "../../src/sse/resumable-sse-transport.js";
import type { ConnectionState } from "../../src/sse/run-reader.js";
import { CuttingProxy, type Fate } from "../helpers/cutting-proxy.js";
import { majors } from "../helpers/majors.js";
import { memoryChat } from "../helpers/memory-chat.js";
import { drain, history, sendOptions, userMessage, textOf } from "../helpers/messages.js";
import { runsStarted } from "../helpers/runs-started.js";
import { seededRandom } from "../helpers/seeded-random.js";

const url = inject("serverUrl");
const backoff = { initial: 1, max: 20 };
/** Bytes between two cuts: less than an event, and no divisor of one. */
const STRIDE = 61;
const random = seededRandom(4);
let proxy: CuttingProxy;

beforeAll(async () => {
  proxy = await CuttingProxy.start(url);
});
afterAll(() => proxy.stop());

function transportOf(states: ConnectionState[] = [], more: object = {}): ResumableSseTransport {
  return new ResumableSseTransport({ api: `${proxy.url}/api/chat`, backoff, onState: (state) => states.push(state), ...more });
}

/** A run that has ended: the same message gets the same bytes again. */
async function endedRun(text: string): Promise<{ whole: UIMessageChunk[]; bytes: number; again: () => Promise<UIMessageChunk[]> }> {
  const [chatId, message] = [randomUUID(), userMessage(text)];
  const body = JSON.stringify({ id: chatId, messages: [message], trigger: "submit-message" });
  const post = (): Promise<Response> => fetch(`${url}/api/chat`, { method: "POST", headers: { "content-type": "application/json" }, body });
  await (await post()).text();
  const response = await post();
  // With the headers and the chunked transfer encoding.
  const bytes = (await response.arrayBuffer()).byteLength + 800;
  const again = async (): Promise<UIMessageChunk[]> => drain(await transportOf().sendMessages(sendOptions(chatId, message)));
  return { whole: await again(), bytes, again };
}

test("one cut at any byte: before the headers, in an event, in a character, before the end of the stream", async () => {
  const { whole, bytes, again } = await endedRun("東京の天気");
  expect(whole.at(-1)).toMatchObject({ type: "finish" });
  const cutsBefore = proxy.cuts;
  for (let at = 0; at < bytes; at += STRIDE) {
    proxy.cut(at);
    expect(await again(), `cut behind ${at} bytes`).toEqual(whole);
  }
  expect(proxy.cuts - cutsBefore).toBeGreaterThan((bytes - 800) / STRIDE);
});

test("many cuts, also while resuming", async () => {
  const { whole, again } = await endedRun("東京の天気");
  for (let round = 0; round < 5; round++) {
    const fates: Fate[] = Array.from({ length: 12 }, () => random() < 0.2 ? "refuse" : Math.floor(random() * 900));
    proxy.cut(...fates);
    expect(await again(), JSON.stringify(fates)).toEqual(whole);
  }
});

describe.each(majors)("ai $version", ({ ai }) => {
  test("a chat whose connection is cut while a message is written ends like any other", async () => {
    const states: ConnectionState[] = [];
    const chat = memoryChat(ai, { id: randomUUID(), transport: transportOf(states) });
    proxy.cut(100, 700, 450, "refuse", "refuse", 600, 900);
    await chat.sendMessage({ text: "count to 12" });
    expect(chat.status).toBe("ready");
    expect(textOf(chat.lastMessage)).toBe("1 2 3 4 5 6 7 8 9 10 11 12");
    expect(chat.messages).toEqual((await history(url, chat.id)).messages);
    expect(states.map(({ status }) => status)).toContain("resumed");
    const [first] = states.filter(({ status }) => status === "connected");
    expect(new Set(states.map(({ run }) => run ?? first?.run))).toEqual(new Set([first?.run]));
  });

  test("an answer to a call is used once, however often its request is cut before the headers", async () => {
    let sends = 0;
    const transport = transportOf();
    const chat = memoryChat(ai, {
      id: randomUUID(), transport,
      sendAutomaticallyWhen: (state) => ai.lastAssistantMessageIsCompleteWithApprovalResponses(state) && ++sends > 0,
    });
    await chat.sendMessage({ text: "pay 50 to Hanako" });
    const part = chat.lastMessage?.parts.find((one) => one.type === "tool-process_payment");
    const id = part && "approval" in part ? part.approval?.id : undefined;
    expect(id).toBeDefined();
    proxy.cut(0, 50, 0, 420, 700);
    await chat.addToolApprovalResponse({ id: id ?? "", approved: true });
    await expect.poll(() => chat.status).toBe("ready");
    await expect.poll(() => chat.lastMessage?.parts.at(-1)).toMatchObject({ type: "text", state: "done" });
    expect(sends).toBe(1);
    const paid = chat.lastMessage?.parts.filter((one) => one.type === "tool-process_payment");
    expect(paid).toMatchObject([{ state: "output-available", output: { success: true, amount: 50 } }]);
    expect(JSON.stringify(chat.messages.map(({ parts }) => parts.length)))
      .toBe(JSON.stringify((await history(url, chat.id)).messages.map(({ parts }) => parts.length)));
  });

  test("a regeneration that is cut runs once", async () => {
    const chat = memoryChat(ai, { id: randomUUID(), transport: transportOf() });
    const runs = await runsStarted(url, chat.id);
    await chat.sendMessage({ text: "count to 8" });
    const first = chat.lastMessage?.id;
    proxy.cut(0, 60, 420);
    await chat.regenerate();
    expect(await runs()).toBe(2);
    expect(chat.status).toBe("ready");
    expect(chat.lastMessage?.id).not.toBe(first);
    expect(chat.messages).toEqual((await history(url, chat.id)).messages);
  });

  test("a regeneration that ends after a cut before its first event runs once", async () => {
    let posts = 0;
    const chat = memoryChat(ai, {
      id: randomUUID(),
      transport: new ResumableSseTransport({
        api: `${url}/api/chat`, backoff,
        fetch: async (input, init) => {
          const response = await fetch(input, init);
          if (init?.method !== "POST" || ++posts !== 2) return response;
          await response.text();
          return new Response("", { headers: response.headers });
        },
      }),
    });
    const runs = await runsStarted(url, chat.id);
    await chat.sendMessage({ text: "count to 2" });
    await chat.regenerate();
    expect([await runs(), posts]).toEqual([2, 2]);
  });

  test("a message that is being written is resumed on load, with cuts", async () => {
    const writing = memoryChat(ai, { id: randomUUID(), transport: transportOf() });
    proxy.cut();
    const written = writing.sendMessage({ text: "count to 25" });
    await expect.poll(() => textOf(writing.lastMessage)).toMatch(/^1 2 3/);
    const known = await history(url, writing.id);
    expect(known.active).not.toBeNull();
    const loaded = memoryChat(ai, { id: writing.id, messages: known.messages, transport: transportOf() });
    proxy.cut(200, 500, 300, 600, 200);
    await loaded.resumeStream();
    await written;
    expect(loaded.messages).toEqual(writing.messages);
    expect(textOf(loaded.lastMessage)).toMatch(/24 25$/);
    await loaded.resumeStream();
    expect(loaded.status).toBe("ready");
  });

  test("a server that sends nothing is replaced by a new connection", async () => {
    const chat = memoryChat(ai, { id: randomUUID(), transport: transportOf([], { silence: 200 }) });
    proxy.cut(600, "hole", "hole");
    await chat.sendMessage({ text: "count to 6" });
    expect(textOf(chat.lastMessage)).toBe("1 2 3 4 5 6");
  });

  test("gives up in the end with an error that names the network", async () => {
    const chat = memoryChat(ai, { id: randomUUID(), transport: transportOf([], { backoff: { ...backoff, attempts: 3 } }) });
    proxy.cut(600, ...Array.from({ length: 20 }, (): Fate => "refuse"));
    const ends: boolean[] = [];
    const other = memoryChat(ai, {
      id: randomUUID(), transport: transportOf([], { backoff: { ...backoff, attempts: 3 } }),
      onFinish: ({ isDisconnect }) => ends.push(isDisconnect),
    });
    await chat.sendMessage({ text: "count to 6" });
    await other.sendMessage({ text: "count to 6" });
    expect(chat.status).toBe("error");
    expect(other.error?.message).toContain("network");
    expect(ends).toEqual([true]);
  });
});
