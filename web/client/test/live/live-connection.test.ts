import { randomUUID } from "node:crypto";
import { describe, expect, inject, test as base, vi } from "vitest";
import { WebSocket } from "ws";
import { NotConnected } from "../../src/errors.js";
import { LiveChatTransport } from "../../src/live/live-chat-transport.js";
import { clientTools } from "../../src/tools/client-tools.js";
import { CuttingProxy } from "../helpers/cutting-proxy.js";
import { LivePage } from "../helpers/live-page.js";
import { majors } from "../helpers/majors.js";
import { textOf } from "../helpers/messages.js";
import { seededRandom } from "../helpers/seeded-random.js";

const test = base.extend<{ proxy: CuttingProxy }>({
  proxy: async ({}, use) => {
    const proxy = await CuttingProxy.start(inject("serverUrl"));
    await use(proxy);
    await proxy.stop();
  },
});

describe.each(majors)("ai $version: a page that disconnects", (major) => {
  test("leaves the conversation to go on, and rejoins it", async ({ proxy }) => {
    const resumed: boolean[] = [];
    const page = new LivePage(major, { url: proxy.url, transport: { onConnect: (ready) => resumed.push(ready.resumed) } });
    const sending = page.chat.sendMessage({ text: "pay 50 to Hanako" });
    await page.asked(1);
    page.transport.disconnect();
    await sending;
    expect([page.chat.status, page.chat.error, page.count("close")]).toEqual(["ready", undefined, 0]);
    page.answer((await page.asked(1))[0], true);
    await vi.waitFor(() => expect(page.calls("output-available")).toHaveLength(1), { timeout: 20_000 });
    expect(resumed).toEqual([false, true]);
    page.transport.close();
  });
});

describe.each(majors)("ai $version: a lost connection", (major) => {
  test("in the middle of a message is not noticed by the chat", async ({ proxy }) => {
    const page = new LivePage(major, { url: proxy.url });
    proxy.fates = [900, 900, 900];
    await page.chat.sendMessage({ text: "count to 40" });
    expect([page.chat.status, page.chat.error]).toEqual(["ready", undefined]);
    expect(textOf(page.chat.lastMessage).match(/\d+/g)).toEqual(Array.from({ length: 40 }, (_, n) => String(n + 1)));
    expect(proxy.cuts).toBe(3);
    await page.isAsStored();
    page.transport.close();
  });

  test("many times in a conversation changes nothing", async ({ proxy }) => {
    const random = seededRandom(5);
    const tools = clientTools({ get_timezone: () => ({ timezone: "UTC", local_time: "12:00" }) });
    const page = new LivePage(major, { url: proxy.url, tools });
    proxy.fates = Array.from({ length: 20 }, () => 1500 + Math.floor(random() * 6000));
    await page.chat.sendMessage({ text: "count to 12" });
    const answered = page.chat.sendMessage({ text: "pay 5 to Eve, what time is it and weather in Paris" });
    page.answer((await page.asked(1))[0], true);
    await answered;
    await page.chat.sendMessage({ text: "count to 3" });
    expect([page.chat.status, page.chat.error, page.chat.messages.length, page.errors]).toEqual(["ready", undefined, 6, []]);
    expect(proxy.cuts).toBeGreaterThan(3);
    await page.isAsStored();
    page.transport.close();
  });

  test("while a call is pending keeps it, and an answer given meanwhile arrives", async ({ proxy }) => {
    const lost: string[] = [];
    const page = new LivePage(major, { url: proxy.url, transport: { onDisconnect: ({ final }) => lost.push(`lost ${final}`), onConnect: () => lost.push("ready") } });
    const sending = page.chat.sendMessage({ text: "pay 50 to Hanako" });
    const [payment] = await page.asked(1);
    proxy.cut("refuse", "refuse");
    page.answer(payment, true);
    await sending;
    expect([page.calls("output-available").length, page.count("send"), page.errors]).toEqual([1, 1, []]);
    expect(lost).toEqual(["ready", "lost false", "ready"]);
    page.transport.close();
  });

  test("drops audio and counts it, and the next one repeats that the user speaks", async ({ proxy }) => {
    const page = new LivePage(major, { url: proxy.url });
    await page.transport.startAudio();
    expect(page.transport.sendAudioChunk(new Int16Array(320))).toBe(true);
    proxy.cut("refuse", "refuse");
    await expect.poll(() => page.transport.sendAudioChunk(new Int16Array(320))).toBe(false);
    expect(page.transport.dropped).toEqual({ audio: 1, video: 0 });
    await expect.poll(() => page.count("audio_control")).toBe(2);
    page.transport.close();
  });

  test("that is not restored rejects unconfirmed answers", async ({ proxy }) => {
    const page = new LivePage(major, { url: proxy.url });
    const sending = page.chat.sendMessage({ text: "pay 50 to Hanako" });
    const [payment] = await page.asked(1);
    proxy.cut(...Array.from({ length: 1000 }, () => "refuse" as const));
    const answering = page.transport.sendToolResult(payment?.toolCallId ?? "", undefined, "approved");
    page.transport.close();
    await expect(answering).rejects.toThrow(NotConnected);
    await sending;
    // The page has closed it, so it is no error for the chat.
    expect([page.chat.status, page.chat.error]).toEqual(["ready", undefined]);
  });
});

describe("no connection", () => {
  function unreachable(): LiveChatTransport {
    return new LiveChatTransport({ url: "ws://127.0.0.1:9/api/live", chat: randomUUID(), WebSocket, backoff: { initial: 1, max: 1, attempts: 2 } });
  }

  test.each([
    ["startAudio", (transport: LiveChatTransport) => transport.startAudio()],
    ["sendToolResult", (transport: LiveChatTransport) => transport.sendToolResult("call", 1)],
    ["interrupt", (transport: LiveChatTransport) => transport.interrupt()],
    ["stopAudio", (transport: LiveChatTransport) => transport.stopAudio()],
  ])("%s rejects", async (_, act) => {
    await expect(act(unreachable())).rejects.toThrow(NotConnected);
  });

  test("audio is dropped and counted", () => {
    const transport = unreachable();
    expect([transport.sendAudioChunk(new Int16Array(1)), transport.dropped]).toEqual([false, { audio: 1, video: 0 }]);
  });

  test("an answer to an unknown call is refused with the server's text", async () => {
    const transport = new LiveChatTransport({ url: `${inject("serverUrl")}/api/live`, chat: randomUUID(), WebSocket });
    await expect(transport.sendToolResult("nobody", undefined, "approved")).rejects.toMatchObject({ name: "HttpError", status: 404 });
    transport.close();
  });
});
