import { randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type * as Ai from "ai-7-0-169";
import { afterAll, beforeAll, describe, expect, inject, test, vi } from "vitest";
import { WebSocket } from "ws";
import type { LiveToolRequest } from "../../src/live/live-calls.js";
import type { LiveChatTransport } from "../../src/live/live-chat-transport.js";
import { majors } from "../helpers/majors.js";
import { memoryChat } from "../helpers/memory-chat.js";
import { textOf } from "../helpers/messages.js";

const FOLDER = fileURLToPath(new URL("./", import.meta.url));
const DOCS = readFileSync(join(FOLDER, "../../../../docs/front-end.md"), "utf8");
const SOURCE = join(FOLDER, "../../src/index.ts");
const CHAT = "__chat_of_the_pattern";

type Chat = Ai.AbstractChat<Ai.UIMessage>;
type Begun = { chat: Chat; transport: LiveChatTransport };
type Manual = Begun & {
  waiting: LiveToolRequest[];
  approve: (request: LiveToolRequest) => Promise<void>;
  refuse: (request: LiveToolRequest, why: string) => Promise<void>;
  give: (request: LiveToolRequest, output: unknown) => Promise<void>;
};

let scratch = "";
beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), "adkwire-patterns-"));
  // Node 20 has no WebSocket, a page has.
  vi.stubGlobal("WebSocket", WebSocket);
});
afterAll(() => {
  vi.unstubAllGlobals();
  rmSync(scratch, { recursive: true, force: true });
});

/** Run a pattern of the documentation as it is, with the chat of a release of `ai`. */
async function begin<T extends Begun>(pattern: string, ai: typeof Ai, ...more: unknown[]): Promise<T> {
  const code = new RegExp(`<!-- pattern: ${pattern} -->\n\`\`\`ts\n(.*?)\`\`\``, "s").exec(DOCS)?.[1] ?? "";
  const own = code
    .replace('import { Chat } from "@ai-sdk/react";', `const { Chat } = globalThis.${CHAT};`)
    .replace('from "adkwire"', `from ${JSON.stringify(SOURCE)}`);
  const file = join(scratch, `${pattern}-${randomUUID()}.ts`);
  writeFileSync(file, own);
  const Chat = function (options: Parameters<typeof memoryChat>[1]): Chat {
    return memoryChat(ai, options);
  };
  vi.stubGlobal(CHAT, { Chat });
  const module = (await import(/* @vite-ignore */ file)) as { begin: (url: string, chatId: string, ...more: unknown[]) => T };
  return module.begin(inject("serverUrl"), randomUUID(), ...more);
}

function outcomes(chat: Chat): Record<string, unknown> {
  const calls = (chat.lastMessage?.parts ?? []).filter((part): part is Ai.ToolUIPart => "toolCallId" in part);
  return Object.fromEntries(calls.map((part) => [part.type.slice("tool-".length), part.errorText ?? part.output ?? part.state]));
}

test("the documentation has five patterns", () => {
  expect([...DOCS.matchAll(/<!-- pattern: (\w+) -->/g)].map(([, name]) => name)).toEqual(["automatic", "dialog", "manual", "mixed", "everything"]);
});

describe.each(majors)("ai $version", ({ ai }) => {
  test("automatic", async () => {
    const { chat, transport } = await begin("automatic", ai);
    await chat.sendMessage({ text: "what time is it" });
    expect(outcomes(chat)).toEqual({ get_timezone: { timezone: "Asia/Tokyo", local_time: expect.any(String) } });
    expect([chat.status, textOf(chat.lastMessage) !== ""]).toEqual(["ready", true]);
    transport.close();
  });

  test.each([true, false])("automatic, with a dialog: %s", async (yes) => {
    const { chat, transport } = await begin("dialog", ai, async () => yes);
    await chat.sendMessage({ text: "what time is it" });
    const expected = yes ? { timezone: "Asia/Tokyo", local_time: expect.any(String) } : "The user keeps it private.";
    expect(outcomes(chat)).toEqual({ get_timezone: expected });
    transport.close();
  });

  test("manual", async () => {
    const { chat, transport, waiting, approve, refuse, give } = await begin<Manual>("manual", ai);
    const request = async (kind: string, toolName: string): Promise<LiveToolRequest> => {
      await expect.poll(() => waiting.findLast((one) => one.kind === kind)?.toolName).toBe(toolName);
      return waiting.findLast((one) => one.kind === kind) as LiveToolRequest;
    };
    const first = chat.sendMessage({ text: "where am I" });
    await approve(await request("approval", "get_location"));
    await give(await request("output", "get_location"), { latitude: 1, longitude: 2, accuracy: 3 });
    await first;
    expect(outcomes(chat)).toEqual({ get_location: { latitude: 1, longitude: 2, accuracy: 3 } });
    const second = chat.sendMessage({ text: "pay 5 to Eve" });
    const payment = await request("approval", "process_payment");
    expect(payment.input).toMatchObject({ amount: 5, recipient: "Eve" });
    await refuse(payment, "not today");
    await second;
    expect(outcomes(chat)).toEqual({ process_payment: "output-denied" });
    transport.close();
  });

  test("mixed", async () => {
    const asked: string[] = [];
    const decide = async ({ toolName }: LiveToolRequest): Promise<boolean> => asked.push(toolName) > 0;
    const { chat, transport } = await begin("mixed", ai, decide);
    await chat.sendMessage({ text: "pay 5 to Eve, what time is it and weather in Paris" });
    expect(outcomes(chat)).toMatchObject({ process_payment: { success: true }, get_timezone: { timezone: "Asia/Tokyo" }, get_weather: { location: "Paris" } });
    expect(asked).toEqual(["process_payment"]);
    transport.close();
  });

  test("everything", async () => {
    const notes: string[] = [];
    const { chat, transport } = await begin("everything", ai, (what: string) => notes.push(what));
    const answered = chat.sendMessage({ text: "where am I" });
    await expect.poll(() => notes).toContain("approval get_location");
    const part = chat.lastMessage?.parts.find((one): one is Ai.ToolUIPart => one.type === "tool-get_location");
    void chat.addToolApprovalResponse({ id: part && "approval" in part ? (part.approval?.id ?? "") : "", approved: true });
    await answered;
    expect(outcomes(chat)).toEqual({ get_location: { latitude: 35.68, longitude: 139.69, accuracy: 20 } });
    expect(notes).toEqual(expect.arrayContaining(["thinking", "waiting", "speaking"]));
    transport.close();
  });
});
