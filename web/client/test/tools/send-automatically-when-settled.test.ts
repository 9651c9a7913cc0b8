import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import type * as Ai from "ai-7-0-169";
import { describe, expect, test } from "vitest";
import { WebSocketChatTransport } from "../../src/socket/web-socket-chat-transport.js";
import { ResumableSseTransport } from "../../src/sse/resumable-sse-transport.js";
import { sendAutomaticallyWhenSettled } from "../../src/tools/send-automatically-when-settled.js";
import { majors } from "../helpers/majors.js";
import { memoryChat } from "../helpers/memory-chat.js";

type Act = "approve" | "deny" | "output" | "error" | "wait";
type Part = Ai.UIMessage["parts"][number];

const asked = (id: string): Part => ({ type: "tool-pay", toolCallId: id, state: "approval-requested", input: {}, approval: { id: `ask-${id}` } });
const offered = (id: string): Part => ({ type: "dynamic-tool", toolName: "clock", toolCallId: id, state: "input-available", input: {} });
const done = (id: string): Part => ({ type: "tool-weather", toolCallId: id, state: "output-available", input: {}, output: "rain" });
const denied = (id: string): Part => ({ type: "tool-pay", toolCallId: id, state: "output-denied", input: {}, approval: { id: `ask-${id}`, approved: false } });
const preliminary = (id: string): Part => ({ ...done(id), preliminary: true }) as Part;
const open: Part = { type: "text", text: "I was", state: "streaming" };
const endedText: Part = { type: "text", text: "I was.", state: "done" };

/** The table of the README: the calls of the last step, what the person and the page do, and whether the answers are sent. */
const rows: [name: string, parts: Part[], acts: Act[], isSent: boolean][] = [
  ["approval only, approved", [asked("a")], ["approve"], true],
  ["approval only, denied", [asked("a")], ["deny"], true],
  ["two approvals, one verdict each way", [asked("a"), asked("b")], ["approve", "deny"], true],
  ["two approvals, one answered", [asked("a"), asked("b")], ["approve", "wait"], false],
  ["output only", [offered("a")], ["output"], true],
  ["output only, an error", [offered("a")], ["error"], true],
  ["output only, then text that ended", [offered("a"), endedText], ["output"], true],
  ["output only, then text that was broken off", [offered("a"), open], ["output"], false],
  ["two outputs, one given", [offered("a"), offered("b")], ["output", "wait"], false],
  ["mixed, approved", [asked("a"), offered("b")], ["approve", "output"], true],
  ["mixed, denied, and an error", [asked("a"), offered("b")], ["deny", "error"], true],
  ["mixed, the verdict is missing", [asked("a"), offered("b")], ["wait", "output"], false],
  ["mixed, the output is missing", [asked("a"), offered("b")], ["approve", "wait"], false],
  ["mixed with a call of the server", [asked("a"), done("s")], ["approve"], true],
  ["a call of the server that has not ended", [asked("a"), preliminary("s")], ["approve"], false],
  ["an output beside a call that was denied before", [denied("d"), offered("a")], ["output"], true],
];

test("the README has these rows", () => {
  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  const [, table = ""] = readme.split("| last step | message is sent |\n|---|---|\n");
  const documented = [...table.matchAll(/^\| (.+) \| (yes|no) \|$/gm)].map(([, name, isSent]) => [name, isSent === "yes"]);
  expect(documented).toEqual(rows.map(([name, , , isSent]) => [name, isSent]));
});

function sseResponse(...chunks: unknown[]): Response {
  const text = chunks.map((chunk) => `data: ${typeof chunk === "string" ? chunk : JSON.stringify(chunk)}\n\n`).join("");
  return new Response(text, { headers: { "content-type": "text/event-stream" } });
}

function chatWith(
  ai: typeof Ai, parts: Part[], sends: unknown[], answer: Ai.UIMessageChunk[] = [], transport?: Ai.ChatTransport<Ai.UIMessage>,
): Ai.AbstractChat<Ai.UIMessage> {
  const before: Part[] = [{ type: "step-start" }, done("earlier"), { type: "step-start" }];
  return memoryChat(ai, {
    id: randomUUID(),
    messages: [{ id: "u", role: "user", parts: [] }, { id: randomUUID(), role: "assistant", parts: [...before, ...parts] }],
    sendAutomaticallyWhen: sendAutomaticallyWhenSettled,
    transport: {
      sendMessages: async (options) => {
        sends.push(structuredClone(options.messages.at(-1)));
        if (transport) return transport.sendMessages(options);
        return new ReadableStream({ start: (controller) => (answer.forEach((chunk) => controller.enqueue(chunk)), controller.close()) });
      },
      reconnectToStream: async () => null,
    },
  });
}

async function act(chat: Ai.AbstractChat<Ai.UIMessage>, part: Part | undefined, what: Act): Promise<void> {
  const { toolCallId } = part as { toolCallId: string };
  if (what === "approve" || what === "deny") await chat.addToolApprovalResponse({ id: `ask-${toolCallId}`, approved: what === "approve" });
  else if (what === "output") await chat.addToolOutput({ tool: "clock", toolCallId, output: 12 });
  else if (what === "error") await chat.addToolOutput({ tool: "clock", toolCallId, state: "output-error", errorText: "no" });
}

/** Wait until the chat is idle. */
async function idle(chat: Ai.AbstractChat<Ai.UIMessage>): Promise<void> {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
  expect(chat.status).toBe("ready");
}

describe.each(majors)("ai $version", ({ ai }) => {
  test.each(rows)("%s", async (_, parts, acts, isSent) => {
    const sends: Ai.UIMessage[] = [];
    // The continuation is a new step: only without one could it loop.
    const chat = chatWith(ai, parts, sends, [{ type: "start-step" }, { type: "text-start", id: "t" }, { type: "text-end", id: "t" }]);
    const open = parts.filter((part) => "state" in part && ["approval-requested", "input-available"].includes(part.state ?? ""));
    for (const [i, what] of acts.entries()) {
      expect(sends).toHaveLength(0);
      await act(chat, open[i], what);
    }
    await idle(chat);
    expect(sends).toHaveLength(isSent ? 1 : 0);
  });

  test.each([
    ["nothing at all", []],
    ["text, but no step", [{ type: "text-start", id: "t" }, { type: "text-delta", id: "t", delta: "hm" }, { type: "text-end", id: "t" }]],
  ] satisfies [string, Ai.UIMessageChunk[]][])("a server that answers with %s is not asked for ever", async (_, answer) => {
    const sends: unknown[] = [];
    const chat = chatWith(ai, [asked("a")], sends, answer);
    const { messages } = chat;
    await act(chat, asked("a"), "approve");
    await idle(chat);
    expect(sends).toHaveLength(3);
    // An answer that is given again is sent again.
    chat.messages = messages;
    await act(chat, asked("a"), "approve");
    await idle(chat);
    expect(sends).toHaveLength(6);
  });

  test.each([
    ["HTTP", () => new ResumableSseTransport({ fetch: async () => new Response("no", { status: 422 }) })],
    ["HTTP, in the middle", () => new ResumableSseTransport({ fetch: async () => sseResponse({ type: "start" }), backoff: { attempts: 0 } })],
    ["HTTP, by the agent", () => new ResumableSseTransport({ fetch: async () => sseResponse({ type: "error", errorText: "no" }, "[DONE]") })],
    ["a socket", () => new WebSocketChatTransport({ url: "nowhere" })],
  ] satisfies [string, () => Ai.ChatTransport<Ai.UIMessage>][])("an answer whose request failed is sent again whenever it is given again: %s", async (_, make) => {
    const sends: unknown[] = [];
    const chat = chatWith(ai, [asked("a")], sends, [], make());
    const { messages } = chat;
    for (let i = 1; i <= 5; i++) {
      chat.clearError();
      chat.messages = messages;
      await act(chat, asked("a"), "approve");
      await expect.poll(() => [sends.length, chat.status]).toEqual([i, "error"]);
    }
  });
});

test("nothing is sent after a user's message, in an empty chat, or for calls that were denied before", () => {
  const message = (role: string, ...parts: Part[]): { messages: { id: string; role: string; parts: Part[] }[] } =>
    ({ messages: [{ id: randomUUID(), role, parts }] });
  expect(sendAutomaticallyWhenSettled({ messages: [] })).toBe(false);
  expect(sendAutomaticallyWhenSettled(message("user", done("a")))).toBe(false);
  expect(sendAutomaticallyWhenSettled(message("assistant", endedText))).toBe(false);
  expect(sendAutomaticallyWhenSettled(message("assistant", denied("a")))).toBe(false);
  expect(sendAutomaticallyWhenSettled(message("assistant", { ...done("a"), providerExecuted: true } as Part))).toBe(false);
  expect(sendAutomaticallyWhenSettled(message("assistant", done("a"), { type: "step-start" }))).toBe(false);
});
