import { randomUUID } from "node:crypto";
import { Chat } from "@ai-sdk/react";
import type { ToolUIPart, UIMessage } from "ai";
import { describe, expect, inject, test } from "vitest";
import { WebSocket } from "ws";
import { chatOptions } from "../../src/chat-options.js";
import { attach } from "../../src/live/attach.js";
import { LiveChatTransport } from "../../src/live/live-chat-transport.js";
import { clientTools } from "../../src/tools/client-tools.js";
import { LivePage } from "../helpers/live-page.js";
import { majors } from "../helpers/majors.js";
import { history, sendOptions, userMessage, textOf } from "../helpers/messages.js";
import { runsStarted } from "../helpers/runs-started.js";

const url = inject("serverUrl");
const NOON = { timezone: "Asia/Tokyo", local_time: "2026-11-15T12:00:00+09:00" };
const HERE = { latitude: 35.68, longitude: 139.69, accuracy: 20 };

describe.each(majors)("ai $version", (major) => {
  test("typed messages use one socket for all turns", async () => {
    const page = new LivePage(major);
    await page.chat.sendMessage({ text: "count to 3" });
    expect([page.chat.status, textOf(page.chat.lastMessage)]).toEqual(["ready", expect.stringContaining("3")]);
    await page.chat.sendMessage({ text: "weather in Tokyo" });
    expect(page.calls("output-available")).toHaveLength(1);
    expect(page.count("send")).toBe(2);
    await page.isAsStored();
    page.transport.close();
  });

  test("an approval is sent at once, and the same stream goes on", async () => {
    const page = new LivePage(major);
    const started = await runsStarted(url, page.chat.id);
    const answered = page.chat.sendMessage({ text: "pay 50 to Hanako" });
    const [payment] = await page.asked(1);
    expect(page.chat.status).toBe("streaming");
    page.answer(payment, true);
    await answered;
    await page.ready();
    expect(page.calls("output-available")).toMatchObject([{ input: { amount: 50 }, approval: { approved: true } }]);
    expect([page.count("send"), page.count("tool_result"), page.errors]).toEqual([1, 1, []]);
    await page.chat.sendMessage({ text: "count to 3" });
    expect(page.chat.status).toBe("ready");
    expect(await started()).toBe(2);
    page.transport.close();
  });

  test("a denial with its reason", async () => {
    const page = new LivePage(major);
    const answered = page.chat.sendMessage({ text: "pay 50 to Hanako" });
    const [payment] = await page.asked(1);
    page.answer(payment, false, "too much");
    await answered;
    expect(page.calls("output-denied")).toMatchObject([{ approval: { approved: false, reason: "too much" } }]);
    expect([page.count("send"), page.errors]).toEqual([1, []]);
    page.transport.close();
  });

  test.each([[true, true], [true, false], [false, true], [false, false]])("two payments, one by one: %s, %s", async (...verdicts) => {
    const page = new LivePage(major);
    const answered = page.chat.sendMessage({ text: "pay 10 to Ann and 20 to Bob" });
    const [ann, bob] = await page.asked(2);
    page.answer(bob, verdicts[1] as boolean);
    // The outcome of a denial comes when all calls of the step are answered.
    await expect.poll(() => page.calls().map(({ state }) => state)).toEqual(["approval-requested", verdicts[1] ? "output-available" : "approval-responded"]);
    page.answer(ann, verdicts[0] as boolean);
    await answered;
    const states = verdicts.map((approved) => (approved ? "output-available" : "output-denied"));
    expect([page.calls().map(({ state }) => state), page.count("send")]).toEqual([states, 1]);
    page.transport.close();
  });

  test("a gated, a browser and a server call in one step", async () => {
    const tools = clientTools({ get_timezone: () => NOON });
    const page = new LivePage(major, { tools });
    const answered = page.chat.sendMessage({ text: "pay 5 to Eve, what time is it and weather in Paris" });
    await expect.poll(() => page.calls("output-available").length).toBe(2);
    page.answer((await page.asked(1))[0], true);
    await answered;
    expect([page.calls("output-available").length, page.count("send"), page.errors]).toEqual([3, 1, []]);
    expect(page.calls().find(({ type }) => type === "tool-get_timezone")?.output).toEqual(NOON);
    page.transport.close();
  });

  test("a tool of the page that needs an approval runs once, after it", async () => {
    let times = 0;
    const tools = clientTools({ get_location: () => (times++, HERE) });
    const page = new LivePage(major, { tools });
    const answered = page.chat.sendMessage({ text: "where am I" });
    const [call] = await page.asked(1);
    expect(times).toBe(0);
    page.answer(call, true);
    await answered;
    expect([times, page.calls("output-available")[0]?.output, page.count("send"), page.errors]).toEqual([1, HERE, 1, []]);
    page.transport.close();
  });

  test("a double click is one answer", async () => {
    const page = new LivePage(major);
    const answered = page.chat.sendMessage({ text: "pay 50 to Hanako" });
    const [payment] = await page.asked(1);
    page.answer(payment, true);
    page.answer(payment, false);
    await answered;
    expect([page.calls("output-available").length, page.count("tool_result"), page.errors]).toEqual([1, 1, []]);
    page.transport.close();
  });

  test("a message instead of an answer supersedes the call, and the page shows that at once", async () => {
    const page = new LivePage(major);
    const first = page.chat.sendMessage({ text: "pay 50 to Hanako" });
    await page.asked(1);
    await page.chat.sendMessage({ text: "count to 3" });
    await first;
    const parts = page.chat.messages[1]?.parts.filter(({ type }) => type === "tool-process_payment");
    expect(parts).toMatchObject([{ state: "output-error", errorText: "The user went on without answering; this call was not executed." }]);
    expect(textOf(page.chat.lastMessage)).toContain("3");
    page.transport.close();
  });

  test("interrupt ends the turn, and the next message is answered", async () => {
    const page = new LivePage(major);
    const answered = page.chat.sendMessage({ text: "count to 500" });
    await expect.poll(() => textOf(page.chat.lastMessage)).toContain("3");
    await page.transport.interrupt();
    await answered;
    expect([page.chat.status, textOf(page.chat.lastMessage).includes("500")]).toEqual(["ready", false]);
    await page.chat.sendMessage({ text: "count to 3" });
    expect([page.count("send", "abort"), page.errors]).toEqual([2, []]);
    await page.isAsStored();
    page.transport.close();
  });

  test("stop ends the turn, and the next message is answered", async () => {
    const page = new LivePage(major);
    const answered = page.chat.sendMessage({ text: "count to 500" });
    await expect.poll(() => textOf(page.chat.lastMessage)).toContain("3");
    await page.chat.stop();
    await answered;
    await page.chat.sendMessage({ text: "count to 4" });
    expect([page.chat.status, textOf(page.chat.lastMessage)]).toEqual(["ready", expect.stringContaining("4")]);
    expect([page.count("abort"), page.errors]).toEqual([1, []]);
    page.transport.close();
  });

  test("a call that was parked is answered by the chat's own message", async () => {
    const page = await parked(major);
    page.answer((await page.asked(1))[0], true);
    await expect.poll(() => page.calls("output-available").length).toBe(1);
    await page.ready();
    expect([page.count("send"), page.count("tool_result"), page.errors]).toEqual([1, 0, []]);
    page.transport.close();
  });

  test("a call that was parked is answered by sendToolResult, and the turn that follows is shown", async () => {
    const page = await parked(major);
    const [payment] = await page.asked(1);
    await page.transport.sendToolResult(payment?.toolCallId ?? "", undefined, "approved");
    await expect.poll(() => page.calls("output-available").length).toBe(1);
    await page.ready();
    expect([page.chat.messages.length, page.count("send"), page.errors]).toEqual([2, 0, []]);
    await page.isAsStored();
    page.transport.close();
  });

  test.each([true, false])("one of two parked calls is answered by sendToolResult (%s), and the other by the chat", async (approved) => {
    const page = await parked(major, "pay 50 to Hanako and pay 60 to Taro", 2);
    const [first, second] = await page.asked(2);
    await page.transport.sendToolResult(first?.toolCallId ?? "", undefined, approved ? "approved" : "rejected");
    page.answer(second, true);
    await expect.poll(() => page.calls("output-available").length).toBe(approved ? 2 : 1);
    await page.ready();
    expect([page.chat.messages.length, page.count("send"), page.errors]).toEqual([2, 0, []]);
    page.transport.close();
  });

  test("a page that is loaded while a call is pending can answer it, and the page before shows that", async () => {
    const first = new LivePage(major);
    const answered = first.chat.sendMessage({ text: "pay 50 to Hanako" });
    await first.asked(1);
    const { messages } = await history(url, first.chat.id);
    const second = new LivePage(major, { chatId: first.chat.id, messages });
    const resumed = second.chat.resumeStream();
    second.answer((await second.asked(1))[0], true);
    await Promise.all([answered, resumed]);
    for (const page of [first, second]) {
      expect([page.chat.status, page.calls("output-available").length, page.errors]).toEqual(["ready", 1, []]);
      await page.isAsStored();
    }
    first.transport.close();
    second.transport.close();
  });

  test("a live transport serves one chat", async () => {
    const page = new LivePage(major);
    await expect(page.transport.sendMessages(sendOptions(randomUUID(), userMessage("hi")))).rejects.toThrow(/^This live transport is for the chat /);
  });
});

test("the latency is reported", async () => {
  const times: number[] = [];
  const page = new LivePage(majors[1] as (typeof majors)[number], { transport: { pingInterval: 10, latencyCallback: (ms) => times.push(ms) } });
  await page.chat.resumeStream();
  await expect.poll(() => times.length).toBeGreaterThan(2);
  expect(times.every((ms) => ms >= 0)).toBe(true);
  page.transport.close();
});

test("a turn of the server without an attached chat is an error", async () => {
  const errors: string[] = [];
  const transport = new LiveChatTransport({
    url: `${url}/api/live`, chat: randomUUID(), WebSocket, onError: ({ message }) => errors.push(message),
  });
  await transport.startAudio();
  transport.sendAudioChunk(new Int16Array(1600));
  await transport.stopAudio();
  await expect.poll(() => errors).toEqual(["The server has begun a turn and no chat is attached to show it: call attach(chat, transport)."]);
  transport.close();
});

test("the chat of @ai-sdk/react", async () => {
  const tools = clientTools({ get_timezone: () => NOON });
  const { useChatOptions, transport } = chatOptions<UIMessage>({ mode: "live", url, chatId: randomUUID(), tools, transport: { WebSocket } });
  const chat = attach(new Chat(useChatOptions), transport);
  tools.pickUp(chat);
  const answered = chat.sendMessage({ text: "pay 5 to Eve and what time is it" });
  const asked = (): ToolUIPart | undefined =>
    chat.lastMessage?.parts.find((part): part is ToolUIPart => "state" in part && part.state === "approval-requested");
  await expect.poll(asked).toBeDefined();
  await chat.addToolApprovalResponse({ id: asked()?.approval?.id ?? "", approved: true });
  await answered;
  const states = chat.lastMessage?.parts.map((part) => ("toolCallId" in part ? part.state : undefined)).filter(Boolean);
  expect([chat.status, states]).toEqual(["ready", ["output-available", "output-available"]]);
  transport.close();
});

/** A page that is loaded while calls are parked. */
async function parked(major: (typeof majors)[number], text = "pay 50 to Hanako", calls = 1): Promise<LivePage> {
  const before = new LivePage(major);
  const { id: chatId } = before.chat;
  void before.chat.sendMessage({ text }).catch(() => undefined);
  await before.asked(calls);
  before.transport.close();
  const load = async (): Promise<{ pending: unknown[]; active: unknown; messages: LivePage["chat"]["messages"] }> =>
    (await (await fetch(`${url}/api/chats/${chatId}`)).json()) as never;
  await expect.poll(load).toMatchObject({ pending: Array.from({ length: calls }, () => ({ kind: "approval" })), active: null });
  return new LivePage(major, { chatId, messages: (await load()).messages });
}
