import { describe, expect, inject, test } from "vitest";
import { WebSocket } from "ws";
import { LiveCalls, type LiveToolRequest } from "../../src/live/live-calls.js";
import { clientTools } from "../../src/tools/client-tools.js";
import { LivePage } from "../helpers/live-page.js";
import { majors } from "../helpers/majors.js";
import { history, textOf } from "../helpers/messages.js";

const url = inject("serverUrl");
const NOON = { timezone: "Asia/Tokyo", local_time: "2026-11-15T12:00:00+09:00" };
const HERE = { latitude: 35.68, longitude: 139.69, accuracy: 20 };
const TOO_LONG = "no ".repeat(1000);

/** A callback that notes the requests it gets, in short. */
function noting(requests: string[]): { onToolCallRequest: (request: LiveToolRequest) => void } {
  return { onToolCallRequest: ({ kind, toolName, input }) => void requests.push(`${kind} ${toolName} ${JSON.stringify(input)}`) };
}

/** The same chat in a page that is loaded again, with the history of the server. */
async function reloaded(page: LivePage, major: (typeof majors)[number], options: ConstructorParameters<typeof LivePage>[1]): Promise<LivePage> {
  const { messages } = await history(url, page.chat.id);
  return new LivePage(major, { chatId: page.chat.id, messages, ...options });
}

describe.each(majors)("ai $version: an answer to a call that the server refuses", (major) => {
  test("leaves the call open, and the next answer is taken", async () => {
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

  test("leaves the call open after sendToolResult, too", async () => {
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

  test("leaves a call of the page without output", async () => {
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

describe.each(majors)("ai $version: reported calls", (major) => {
  test("are those that wait for an answer", async () => {
    const [requests, asked]: [string[], string[]] = [[], []];
    const tools = clientTools({ get_timezone: () => NOON });
    const page = new LivePage(major, { tools, transport: { ...noting(requests), toolCallCallback: ({ toolName }) => void asked.push(toolName) } });
    const answered = page.chat.sendMessage({ text: "pay 5 to Eve, what time is it and weather in Paris" });
    page.answer((await page.asked(1))[0], true);
    await answered;
    expect(page.calls("output-available").length).toBe(3);
    expect(requests).toEqual([expect.stringMatching(/^approval process_payment {.*"amount":5/)]);
    expect(asked).toEqual(["get_timezone"]);
    page.transport.close();
  });

  test("of the page are reported when it may run them", async () => {
    const requests: string[] = [];
    const page = new LivePage(major, { transport: noting(requests) });
    const answered = page.chat.sendMessage({ text: "where am I" });
    const [call] = await page.asked(1);
    expect(requests).toEqual(["approval get_location {}"]);
    page.answer(call, true);
    await expect.poll(() => requests).toEqual(["approval get_location {}", "output get_location {}"]);
    await page.transport.sendToolResult(call?.toolCallId ?? "", HERE);
    await answered;
    expect(requests.length).toBe(2);
    page.transport.close();
  });

  test.each(["held", "parked"])("are reported again in a page that is loaded while they are %s", async (how) => {
    const before = new LivePage(major);
    const first = before.chat.sendMessage({ text: "pay 5 to Eve and where am I" });
    await before.asked(2);
    if (how === "parked") before.transport.close();
    if (how === "parked") await expect.poll(async () => (await history(url, before.chat.id)).active).toBeNull();
    const requests: string[] = [];
    const page = await reloaded(before, major, { transport: noting(requests) });
    const resumed = page.chat.resumeStream();
    await expect.poll(() => requests.toSorted()).toEqual(["approval get_location {}", expect.stringMatching(/^approval process_payment {.*"amount":5/)]);
    for (const part of await page.asked(2)) page.answer(part, true);
    await expect.poll(() => requests[2]).toBe("output get_location {}");
    const call = page.calls().find(({ type }) => type === "tool-get_location");
    await page.transport.sendToolResult(call?.toolCallId ?? "", HERE);
    await Promise.all([first, resumed]);
    await expect.poll(() => page.calls("output-available").length).toBe(2);
    await page.ready();
    expect([requests.length, page.errors]).toEqual([3, []]);
    before.transport.close();
    page.transport.close();
  });

  test("of the page are run once by a page that is loaded while they are pending", async () => {
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

describe.each(majors)("ai $version: closing the transport", (major) => {
  test("ends the message that is being written and keeps what has come", async () => {
    const page = new LivePage(major);
    const answered = page.chat.sendMessage({ text: "pay 50 to Hanako" });
    await page.asked(1);
    page.transport.close();
    await answered;
    expect([page.chat.status, page.chat.error, page.calls("approval-requested").length]).toEqual(["ready", undefined, 1]);
    expect(page.errors).toEqual([]);
  });

  test("does not make the chat send its answers by itself", async () => {
    const page = new LivePage(major);
    const answered = page.chat.sendMessage({ text: "pay 10 to Ann and 20 to Bob" });
    const [ann, bob] = await page.asked(2);
    await page.transport.sendToolResult(ann?.toolCallId ?? "", undefined, "rejected");
    page.answer(bob, false);
    page.transport.close();
    await answered;
    expect([page.chat.status, page.count("send")]).toEqual(["ready", 1]);
  });

  test("is no error for a chat that is resuming", async () => {
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

test("a call of the server whose arguments were streamed is not reported", () => {
  const requests: string[] = [];
  const calls = new LiveCalls(noting(requests), () => {});
  const place = { messageId: "m", hasStep: true };
  calls.chunk({ type: "tool-input-start", toolCallId: "c", toolName: "find" }, place);
  calls.chunk({ type: "tool-input-delta", toolCallId: "c", inputTextDelta: '{"city":"Par' }, place);
  calls.chunk({ type: "tool-input-delta", toolCallId: "c", inputTextDelta: "is" }, place);
  calls.chunk({ type: "tool-input-available", toolCallId: "c", toolName: "find", input: { city: "Paris" } }, place);
  expect(requests).toEqual([]);
});
