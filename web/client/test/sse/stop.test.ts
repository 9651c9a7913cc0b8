import { randomUUID } from "node:crypto";
import type * as Ai from "ai-7-0-169";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { ResumableSseTransport } from "../../src/sse/resumable-sse-transport.js";
import { CuttingProxy } from "../helpers/cutting-proxy.js";
import { majors } from "../helpers/majors.js";
import { memoryChat } from "../helpers/memory-chat.js";
import { history, userMessage, textOf } from "../helpers/messages.js";

const url = inject("serverUrl");
const backoff = { initial: 1, max: 20 };
let proxy: CuttingProxy;

beforeAll(async () => {
  proxy = await CuttingProxy.start(url);
});
afterAll(() => proxy.stop());

function chatWith(ai: typeof Ai, more: object = {}, init: { id?: string; messages?: Ai.UIMessage[] } = {}): Ai.AbstractChat<Ai.UIMessage> {
  const transport = new ResumableSseTransport({ api: `${proxy.url}/api/chat`, backoff, ...more });
  return memoryChat(ai, { id: randomUUID(), transport, ...init });
}

/** The text of a message in the history, once no run is active. */
async function keptOf(chatId: string): Promise<string> {
  await expect.poll(async () => (await history(url, chatId)).active).toBeNull();
  return textOf((await history(url, chatId)).messages[1]);
}

describe.each(majors)("ai $version", ({ ai }) => {
  test("stop ends the run on the server, and the next message works", async () => {
    const chat = chatWith(ai);
    const sent = chat.sendMessage({ text: "count to 200" });
    await expect.poll(() => textOf(chat.lastMessage)).toMatch(/^1 2 3/);
    await chat.stop();
    await sent;
    expect(chat.status).toBe("ready");
    const kept = await keptOf(chat.id);
    expect(kept).toMatch(/^1 2 3.*(?<! 200)$/);
    expect(kept.startsWith(textOf(chat.lastMessage))).toBe(true);
    await chat.sendMessage({ text: "count to 2" });
    expect(textOf(chat.lastMessage)).toBe("1 2");
  });

  test("stop works on a message that was resumed", async () => {
    const writing = chatWith(ai, { stopOnAbort: false });
    const sent = writing.sendMessage({ text: "count to 200" });
    await expect.poll(() => textOf(writing.lastMessage)).toMatch(/^1 2/);
    const loaded = chatWith(ai, {}, { id: writing.id, messages: [userMessage("count to 200")] });
    const resumed = loaded.resumeStream();
    await expect.poll(() => textOf(loaded.lastMessage)).toMatch(/^1 2/);
    await loaded.stop();
    await resumed;
    // The other page gets the end that the server has made.
    await sent;
    expect(writing.status).toBe("ready");
    expect(await keptOf(writing.id)).toMatch(/^1 2.*(?<! 200)$/);
  });

  test("stop ends at once when the server sends nothing", async () => {
    const chat = chatWith(ai);
    proxy.cut("hole");
    const sent = chat.sendMessage({ text: "count to 200" });
    await expect.poll(() => chat.status).toBe("submitted");
    await chat.stop();
    await sent;
    expect(chat.status).toBe("ready");
    const { status } = await fetch(`${url}/api/chat/${chat.id}/stream`);
    expect(status).toBe(204);
  });

  test("stop while the message is on its way stops its run", async () => {
    const chat = chatWith(ai, {
      fetch: async (input: string, init: RequestInit) => {
        const response = await fetch(input, init);
        if (input.endsWith("/api/chat")) void chat.stop();
        return response;
      },
    });
    await chat.sendMessage({ text: "count to 200" });
    expect(chat.status).toBe("ready");
    expect(await keptOf(chat.id)).toMatch(/(?<! 200)$/);
  });

  test("stop without a connection stops the run when there is one", async () => {
    const chat = chatWith(ai, { backoff: { initial: 50, max: 50 } });
    const sent = chat.sendMessage({ text: "count to 200" });
    await expect.poll(() => textOf(chat.lastMessage)).toMatch(/^1 2 3/);
    proxy.cut("refuse", "refuse", "refuse");
    await chat.stop();
    await sent;
    expect(await keptOf(chat.id)).toMatch(/^1 2 3.*(?<! 200)$/);
  });

  test("with stopOnAbort: false the run goes on", async () => {
    const chat = chatWith(ai, { stopOnAbort: false });
    const sent = chat.sendMessage({ text: "count to 15" });
    await expect.poll(() => textOf(chat.lastMessage)).toMatch(/^1 2 3/);
    await chat.stop();
    await sent;
    expect(await keptOf(chat.id)).toMatch(/14 15$/);
  });

  test("a page that resumes again, as React does in strict mode, stops nothing", async () => {
    const writing = chatWith(ai);
    const sent = writing.sendMessage({ text: "count to 20" });
    await expect.poll(() => textOf(writing.lastMessage)).toMatch(/^1 2/);
    const loaded = chatWith(ai, {}, { id: writing.id, messages: (await history(url, writing.id)).messages });
    const first = loaded.resumeStream();
    await expect.poll(() => textOf(loaded.lastMessage)).toMatch(/^1 2/);
    await Promise.all([first, loaded.resumeStream(), loaded.resumeStream()]);
    await sent;
    expect(textOf(writing.lastMessage)).toMatch(/19 20$/);
    expect(loaded.messages).toEqual(writing.messages);
  });

  test("a message supersedes a reconnect that has not reached the server", async () => {
    const chat = chatWith(ai);
    proxy.cut("hole");
    const resumed = chat.resumeStream();
    await expect.poll(() => proxy.fates.length).toBe(0);
    await chat.sendMessage({ text: "count to 5" });
    await resumed;
    expect(chat.status).toBe("ready");
    expect(textOf(chat.lastMessage)).toBe("1 2 3 4 5");
    expect(chat.messages).toHaveLength(2);
  });
});
