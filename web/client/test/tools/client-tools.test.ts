import { randomUUID } from "node:crypto";
import type * as Ai from "ai-7-0-169";
import { describe, expect, inject, test } from "vitest";
import { ResumableSseTransport } from "../../src/sse/resumable-sse-transport.js";
import { clientTools, type ToolOutput } from "../../src/tools/client-tools.js";
import { sendAutomaticallyWhenSettled } from "../../src/tools/send-automatically-when-settled.js";
import { majors } from "../helpers/majors.js";
import { memoryChat } from "../helpers/memory-chat.js";
import { history, textOf } from "../helpers/messages.js";

const url = inject("serverUrl");
const NOON = { timezone: "Asia/Tokyo", local_time: "2026-11-15T12:00:00+09:00" };

function chatWith(ai: typeof Ai, init: object = {}): Ai.AbstractChat<Ai.UIMessage> {
  const transport = new ResumableSseTransport({ api: `${url}/api/chat` });
  return memoryChat(ai, { id: randomUUID(), transport, sendAutomaticallyWhen: sendAutomaticallyWhenSettled, ...init });
}

function callsIn(chat: Ai.AbstractChat<Ai.UIMessage>, state: string): Ai.ToolUIPart[] {
  return (chat.lastMessage?.parts ?? []).filter((part): part is Ai.ToolUIPart => "state" in part && part.state === state && "toolCallId" in part);
}

async function settled(chat: Ai.AbstractChat<Ai.UIMessage>): Promise<void> {
  await expect.poll(() => [chat.status, textOf(chat.lastMessage) !== ""]).toEqual(["ready", true]);
}

describe.each(majors)("ai $version", ({ ai }) => {
  test("runs a call of the page once, and the agent goes on with its output", async () => {
    let times = 0;
    const tools = clientTools({ get_timezone: () => (times++, NOON) });
    const chat = chatWith(ai, { onToolCall: tools.onToolCall });
    tools.pickUp(chat);
    await chat.sendMessage({ text: "what time is it" });
    tools.pickUp(chat);
    await settled(chat);
    expect(times).toBe(1);
    expect(callsIn(chat, "output-available")).toMatchObject([{ type: "tool-get_timezone", output: NOON }]);
    expect(chat.messages).toEqual((await history(url, chat.id)).messages);
  });

  test("calls that are pending after a reload are run once, however often pickUp is called", async () => {
    const before = chatWith(ai);
    await before.sendMessage({ text: "what time is it" });
    let times = 0;
    const tools = clientTools({ get_timezone: async () => (times++, NOON) });
    const { messages } = await history(url, before.id);
    const chat = chatWith(ai, { id: before.id, messages, onToolCall: tools.onToolCall });
    expect(callsIn(chat, "input-available")).toHaveLength(1);
    tools.pickUp(chat);
    // A page that renders before it has the output still shows the call as pending.
    const stale = { messages, status: "ready", addToolOutput: chat.addToolOutput as (output: ToolOutput) => unknown };
    tools.pickUp(stale);
    await settled(chat);
    tools.pickUp(stale);
    await settled(chat);
    expect(times).toBe(1);
    expect(callsIn(chat, "output-available")).toMatchObject([{ output: NOON }]);
  });

  test("an output that could not be sent is given again when the chat is reloaded, without another run", async () => {
    let [times, away] = [0, false];
    const tools = clientTools({ get_timezone: () => (away = true, times++, NOON) });
    const transport = new ResumableSseTransport({
      api: `${url}/api/chat`, backoff: { attempts: 0 },
      fetch: (input, init) => (away ? Promise.reject(new TypeError("fetch failed")) : fetch(input, init)),
    });
    const chat = chatWith(ai, { onToolCall: tools.onToolCall, transport });
    tools.pickUp(chat);
    await chat.sendMessage({ text: "what time is it" });
    // Any number of times: requests that failed do not count.
    for (let i = 0; i < 5; i++) {
      await expect.poll(() => chat.status).toBe("error");
      tools.pickUp(chat);
      chat.clearError();
      chat.messages = (await history(url, chat.id)).messages;
      expect(callsIn(chat, "input-available")).toHaveLength(1);
      away = i < 4;
      tools.pickUp(chat);
    }
    await settled(chat);
    expect(times).toBe(1);
    expect(callsIn(chat, "output-available")).toMatchObject([{ output: NOON }]);
  });

  test("the model gets the error that a handler throws", async () => {
    const tools = clientTools({ get_timezone: () => Promise.reject(new Error("No clock here.")) });
    const chat = chatWith(ai, { onToolCall: tools.onToolCall });
    tools.pickUp(chat);
    await chat.sendMessage({ text: "what time is it" });
    await settled(chat);
    expect(callsIn(chat, "output-error")).toMatchObject([{ errorText: "No clock here." }]);
  });

  test("a call that needs an approval runs after it, and other tools are ignored", async () => {
    const ran: string[] = [];
    const place = { latitude: 35.6, longitude: 139.7, accuracy: 10 };
    const tools = clientTools({ get_location: (_: unknown, call) => (ran.push(call.toolCallId), place) });
    const chat = chatWith(ai, { onToolCall: tools.onToolCall });
    tools.pickUp(chat);
    await chat.sendMessage({ text: "weather in Paris" });
    await chat.sendMessage({ text: "where am I" });
    tools.pickUp(chat);
    expect(ran).toEqual([]);
    const [asked] = callsIn(chat, "approval-requested");
    await chat.addToolApprovalResponse({ id: asked?.approval?.id ?? "", approved: true });
    await settled(chat);
    expect(ran).toEqual([asked?.toolCallId]);
    expect(callsIn(chat, "output-available")).toMatchObject([{ type: "tool-get_location", output: place, approval: { approved: true } }]);
  });
});

interface Part {
  type: string;
  toolCallId: string;
  toolName?: string;
  state: string;
  input: unknown;
  providerExecuted?: boolean;
}

function page(id: string, ...parts: Part[]): { messages: { id: string; role: string; parts: Part[] }[]; status: string; outputs: ToolOutput[]; addToolOutput: (output: ToolOutput) => void } {
  const outputs: ToolOutput[] = [];
  return { messages: [{ id, role: "assistant", parts }], status: "ready", outputs, addToolOutput: (output) => void outputs.push(output) };
}

const clock: Part = { type: "tool-clock", toolCallId: "call_1", state: "input-available", input: { zone: "UTC" } };

test("an output waits until there is a chat", async () => {
  const tools = clientTools({ clock: ({ zone }: { zone: string }) => `noon ${zone}` });
  tools.onToolCall({ toolCall: { toolCallId: "call_1", toolName: "clock", input: { zone: "UTC" } } });
  const chat = page("m1");
  tools.pickUp(chat);
  await expect.poll(() => chat.outputs).toEqual([{ tool: "clock", toolCallId: "call_1", output: "noon UTC" }]);
});

test("a call that onToolCall has run is not run again, even by a page that does not have its output", async () => {
  let times = 0;
  const tools = clientTools({ clock: () => ++times });
  tools.onToolCall({ toolCall: { toolCallId: "call_1", toolName: "clock", input: {} } });
  const chat = page("m1", clock);
  tools.pickUp(chat);
  await expect.poll(() => chat.outputs).toHaveLength(1);
  tools.pickUp(chat);
  expect(times).toBe(1);
  tools.pickUp(page("m2", clock));
  expect(times).toBe(2);
});

test("calls of two messages may have one id, and undefined becomes null", async () => {
  let times = 0;
  const tools = clientTools({ clock: () => void times++ });
  const [first, second] = [page("m1", clock), page("m2", { ...clock, type: "dynamic-tool", toolName: "clock" })];
  tools.pickUp(first);
  await expect.poll(() => first.outputs).toHaveLength(1);
  tools.pickUp(second);
  await expect.poll(() => second.outputs).toEqual([{ tool: "clock", toolCallId: "call_1", output: null }]);
  expect(times).toBe(2);
});

test.each([
  ["while an answer is written", { ...page("m1", clock), status: "streaming" }],
  ["of the provider", page("m1", { ...clock, providerExecuted: true })],
  ["of the object's own names", page("m1", { ...clock, type: "tool-toString" })],
  ["that has its output", page("m1", { ...clock, state: "output-available" })],
  ["of an earlier step", page("m1", clock, { type: "step-start" } as Part)],
])("no call %s is run", (_, chat) => {
  const ran: unknown[] = [];
  const tools = clientTools({ clock: (_: unknown, call) => ran.push(call) });
  tools.pickUp(chat);
  expect(ran).toEqual([]);
  tools.pickUp(page("m2", { ...clock, toolCallId: "call_2" }));
  expect(ran).toMatchObject([{ toolCallId: "call_2" }]);
});

test("the text for an error can be chosen", async () => {
  const tools = clientTools({ clock: () => { throw "a stone"; } }, { errorText: (error, call) => `${call.toolName}: ${String(error)}` });
  const chat = page("m1", clock);
  tools.pickUp(chat);
  await expect.poll(() => chat.outputs).toEqual([{ tool: "clock", toolCallId: "call_1", state: "output-error", errorText: "clock: a stone" }]);
});
