import { describe, expect, inject, test } from "vitest";
import { WebSocket } from "ws";
import { clientTools } from "../src/client-tools.js";
import { LiveCalls } from "../src/live-calls.js";
import type { LiveToolRequest } from "../src/live-tool-request.js";
import { LivePage } from "./live-page.js";
import { majors } from "./majors.js";
import { history, textOf } from "./pages.js";

const url = inject("serverUrl");
const NOON = { timezone: "Asia/Tokyo", local_time: "2026-11-15T12:00:00+09:00" };
const HERE = { latitude: 35.68, longitude: 139.69, accuracy: 20 };
const TOO_LONG = "no ".repeat(1000);

/** What `onToolCallRequest` hears, in short. */
function hearing(heard: string[]): { onToolCallRequest: (request: LiveToolRequest) => void } {
  return { onToolCallRequest: ({ kind, toolName, input }) => void heard.push(`${kind} ${toolName} ${JSON.stringify(input)}`) };
}

/** A page that was loaded anew, with what the server has. */
async function reloaded(page: LivePage, major: (typeof majors)[number], options: ConstructorParameters<typeof LivePage>[1]): Promise<LivePage> {
  const { messages } = await history(url, page.chat.id);
  return new LivePage(major, { chatId: page.chat.id, messages, ...options });
}

describe.each(majors)("ai $version: an answer that the server refuses", (major) => {
  test("leaves the card open, and the next answer counts", async () => {
    const page = new LivePage(major);
    const answered = page.chat.sendMessage({ text: "pay 50 to Hanako" });
    const [payment] = await page.asked(1);
    page.answer(payment, false, TOO_LONG);
    await expect.poll(() => page.errors.length).toBe(1);
    expect((await page.asked(1))[0]).toEqual(payment);
    page.answer(payment, true);
    await answered;
    expect(page.calls("output-available")).toMatchObject([{ approval: { approved: true } }]);
    expect([page.chat.status, page.count("send"), page.count("tool_result"), page.errors.length]).toEqual(["ready", 1, 2, 1]);
    await page.isAsStored();
    page.transport.close();
  });

  test("leaves it open for sendToolResult, too", async () => {
    const page = new LivePage(major);
    const answered = page.chat.sendMessage({ text: "pay 50 to Hanako" });
    const [payment] = await page.asked(1);
    const { toolCallId = "" } = payment ?? {};
    await expect(page.transport.sendToolResult(toolCallId, TOO_LONG, "rejected")).rejects.toThrow("reason");
    expect((await page.asked(1))[0]).toEqual(payment);
    await page.transport.sendToolResult(toolCallId, "too much", "rejected");
    await answered;
    expect(page.calls("output-denied")).toMatchObject([{ approval: { approved: false, reason: "too much" } }]);
    page.transport.close();
  });

  test("leaves a browser call without output", async () => {
    const page = new LivePage(major);
    const answered = page.chat.sendMessage({ text: "what time is it" });
    await expect.poll(() => page.calls("input-available").length).toBe(1);
    const { toolCallId = "" } = page.calls()[0] ?? {};
    void page.chat.addToolOutput({ tool: "get_timezone", toolCallId, output: "noon" } as never);
    await expect.poll(() => page.errors.length).toBe(1);
    await expect.poll(() => page.calls()).toMatchObject([{ state: "input-available" }]);
    expect(page.calls()[0]?.output).toBeUndefined();
    void page.chat.addToolOutput({ tool: "get_timezone", toolCallId, output: NOON } as never);
    await answered;
    expect(page.calls("output-available")).toMatchObject([{ output: NOON }]);
    expect([page.chat.status, page.count("send"), page.count("tool_result")]).toEqual(["ready", 1, 2]);
    page.transport.close();
  });
});

describe.each(majors)("ai $version: calls that are told", (major) => {
  test("are those that somebody has to answer", async () => {
    const [heard, asked]: [string[], string[]] = [[], []];
    const tools = clientTools({ get_timezone: () => NOON });
    const page = new LivePage(major, { tools, transport: { ...hearing(heard), toolCallCallback: ({ toolName }) => void asked.push(toolName) } });
    const answered = page.chat.sendMessage({ text: "pay 5 to Eve, what time is it and weather in Paris" });
    page.answer((await page.asked(1))[0], true);
    await answered;
    expect(page.calls("output-available").length).toBe(3);
    expect(heard).toEqual([expect.stringMatching(/^approval process_payment {.*"amount":5/)]);
    expect(asked).toEqual(["get_timezone"]);
    page.transport.close();
  });

  test("are a browser's when it may run them", async () => {
    const heard: string[] = [];
    const page = new LivePage(major, { transport: hearing(heard) });
    const answered = page.chat.sendMessage({ text: "where am I" });
    const [call] = await page.asked(1);
    expect(heard).toEqual(["approval get_location {}"]);
    page.answer(call, true);
    await expect.poll(() => heard).toEqual(["approval get_location {}", "output get_location {}"]);
    await page.transport.sendToolResult(call?.toolCallId ?? "", HERE);
    await answered;
    expect(heard.length).toBe(2);
    page.transport.close();
  });

  test.each(["held", "parked"])("are told again to a page that is loaded while they are %s", async (how) => {
    const before = new LivePage(major);
    const first = before.chat.sendMessage({ text: "pay 5 to Eve and where am I" });
    await before.asked(2);
    if (how === "parked") before.transport.close();
    if (how === "parked") await expect.poll(async () => (await history(url, before.chat.id)).active).toBeNull();
    const heard: string[] = [];
    const page = await reloaded(before, major, { transport: hearing(heard) });
    const resumed = page.chat.resumeStream();
    await expect.poll(() => heard.toSorted()).toEqual(["approval get_location {}", expect.stringMatching(/^approval process_payment {.*"amount":5/)]);
    for (const part of await page.asked(2)) page.answer(part, true);
    await expect.poll(() => heard[2]).toBe("output get_location {}");
    const call = page.calls().find(({ type }) => type === "tool-get_location");
    await page.transport.sendToolResult(call?.toolCallId ?? "", HERE);
    await Promise.all([first, resumed]);
    await expect.poll(() => page.calls("output-available").length).toBe(2);
    await page.ready();
    expect([heard.length, page.errors]).toEqual([3, []]);
    before.transport.close();
    page.transport.close();
  });

  test("are run by a page that is loaded while they wait, once", async () => {
    const before = new LivePage(major);
    void before.chat.sendMessage({ text: "what time is it" });
    await expect.poll(() => before.calls("input-available").length).toBe(1);
    before.transport.close();
    await expect.poll(async () => (await history(url, before.chat.id)).active).toBeNull();
    const ran: string[] = [];
    const page = await reloaded(before, major, { transport: { toolCallCallback: ({ toolName }) => (ran.push(toolName), NOON) } });
    await page.chat.resumeStream();
    await expect.poll(() => page.calls("output-available").length).toBe(1);
    await page.ready();
    expect([ran, page.errors]).toEqual([["get_timezone"], []]);
    page.transport.close();
  });
});

describe.each(majors)("ai $version: closing on purpose", (major) => {
  test("ends what is being written, as far as it has come", async () => {
    const page = new LivePage(major);
    const answered = page.chat.sendMessage({ text: "pay 50 to Hanako" });
    await page.asked(1);
    page.transport.close();
    await answered;
    expect([page.chat.status, page.chat.error, page.calls("approval-requested").length]).toEqual(["ready", undefined, 1]);
    expect(page.errors).toEqual([]);
  });

  test("sends nothing by itself, though an answer was given", async () => {
    const page = new LivePage(major);
    const answered = page.chat.sendMessage({ text: "pay 10 to Ann and 20 to Bob" });
    const [ann, bob] = await page.asked(2);
    await page.transport.sendToolResult(ann?.toolCallId ?? "", undefined, "rejected");
    page.answer(bob, false);
    page.transport.close();
    await answered;
    expect([page.chat.status, page.count("send")]).toEqual(["ready", 1]);
  });

  test("is nothing to a chat that looks for an answer", async () => {
    let connecting = (): void => {};
    const dialled = new Promise<void>((resolve) => (connecting = resolve));
    const Noticed = class extends WebSocket {
      constructor(url: string | URL, protocols?: string | string[]) {
        super(url, protocols);
        connecting();
      }
    };
    const page = new LivePage(major, { transport: { WebSocket: Noticed } });
    const resumed = page.chat.resumeStream();
    await dialled;
    page.transport.close();
    await resumed;
    expect([page.chat.status, page.chat.error, page.errors]).toEqual(["ready", undefined, []]);
    await page.chat.sendMessage({ text: "count to 3" });
    expect(textOf(page.chat.lastMessage)).toContain("3");
    page.transport.close();
  });
});

test("a call of the server whose arguments were streamed is nobody's", () => {
  const heard: string[] = [];
  const calls = new LiveCalls(hearing(heard), () => {});
  const place = { messageId: "m", hasStep: true };
  calls.chunk({ type: "tool-input-start", toolCallId: "c", toolName: "find" }, place);
  calls.chunk({ type: "tool-input-delta", toolCallId: "c", inputTextDelta: '{"city":"Par' }, place);
  calls.chunk({ type: "tool-input-delta", toolCallId: "c", inputTextDelta: "is" }, place);
  calls.chunk({ type: "tool-input-available", toolCallId: "c", toolName: "find", input: { city: "Paris" } }, place);
  expect(heard).toEqual([]);
});
