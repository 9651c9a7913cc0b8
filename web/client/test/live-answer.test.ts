import type { UIMessageChunk } from "ai";
import { describe, expect, test } from "vitest";
import { attach } from "../src/attach.js";
import { LiveAnswer } from "../src/live-answer.js";
import type { LiveAttachment } from "../src/live-attachment.js";
import { LiveChatTransport } from "../src/live-chat-transport.js";
import { majors } from "./majors.js";
import { memoryChat } from "./memory-chat.js";
import { drain, textOf } from "./pages.js";

const BEGIN: UIMessageChunk[] = [{ type: "start", messageId: "m" }, { type: "start-step" }, { type: "text-start", id: "t" }];
const END: UIMessageChunk[] = [{ type: "finish-step" }, { type: "finish" }];

function words(...texts: string[]): UIMessageChunk[] {
  return texts.map((delta) => ({ type: "text-delta", id: "t", delta }));
}

/** A transport that answers with what the test says, and hands out what is attached to it. */
class Handed extends LiveChatTransport {
  joined!: LiveAttachment;

  constructor(readonly script: LiveAnswer) {
    super({ url: "ws://127.0.0.1:1/api/live", chat: "c" });
  }

  override async sendMessages(): Promise<ReadableStream<UIMessageChunk>> {
    return this.script.stream;
  }

  override "~attach"(attachment: LiveAttachment): void {
    this.joined = attachment;
  }
}

describe("an answer", () => {
  test("comes in its order, with what is to happen in between", async () => {
    const answer = new LiveAnswer(() => undefined);
    const seen: string[] = [];
    for (const chunk of [...BEGIN, ...words("a")]) answer.chunk(chunk);
    answer.whenTextEnded(() => seen.push("behind the text"));
    for (const chunk of [...words("b"), { type: "text-end", id: "t" } as const]) answer.chunk(chunk);
    answer.chunk(END[0] as UIMessageChunk);
    answer.end();
    for await (const chunk of answer.stream) seen.push(chunk.type);
    expect(seen).toEqual(["start", "start-step", "text-start", "text-delta", "text-delta", "text-end", "behind the text", "finish-step"]);
    await answer.drained;
  });

  test("what is still to happen at its end happens", async () => {
    const answer = new LiveAnswer(() => undefined);
    const seen: string[] = [];
    for (const chunk of BEGIN) answer.chunk(chunk);
    answer.whenTextEnded(() => seen.push("kept"));
    answer.end();
    await drain(answer.stream);
    expect(seen).toEqual(["kept"]);
  });

  test("that fails has first said what it had", async () => {
    const answer = new LiveAnswer(() => undefined);
    for (const chunk of BEGIN) answer.chunk(chunk);
    answer.fail(new Error("lost"));
    const seen: string[] = [];
    const reading = (async () => {
      for await (const chunk of answer.stream) seen.push(chunk.type);
    })();
    await expect(reading).rejects.toThrow("lost");
    expect(seen).toEqual(["start", "start-step", "text-start"]);
  });

  test("that is not wanted any more is cancelled while it waits for more", async () => {
    let cancelled = 0;
    const answer = new LiveAnswer(() => cancelled++);
    const reader = answer.stream.getReader();
    const waiting = reader.read();
    await reader.cancel();
    expect([await waiting, cancelled]).toEqual([{ done: true, value: undefined }, 1]);
    await answer.drained;
    answer.chunk({ type: "start" });
    answer.end();
  });

  test("nothing that runs is no stream", async () => {
    const answer = new LiveAnswer(() => undefined);
    answer.nothing();
    expect(await answer.response).toBeNull();
  });
});

describe.each(majors)("ai $version: what was not heard is not kept", ({ ai }) => {
  test("when the answer ends with it", async () => {
    const transport = new Handed(new LiveAnswer(() => undefined));
    const chat = attach(memoryChat(ai, { id: "c", transport }), transport);
    for (const chunk of [...BEGIN, ...words("one ", "two ", "three")]) transport.script.chunk(chunk);
    transport.script.whenTextEnded(() => transport.joined.keep("m", "one"));
    for (const chunk of [...words(" four"), { type: "text-end", id: "t" } as const, ...END]) transport.script.chunk(chunk);
    transport.script.end();
    await chat.sendMessage({ text: "count" });
    expect([chat.status, textOf(chat.lastMessage)]).toEqual(["ready", "one"]);
  });

  test("when the text comes behind the interruption", async () => {
    const transport = new Handed(new LiveAnswer(() => undefined));
    const chat = attach(memoryChat(ai, { id: "c", transport }), transport);
    transport.script.whenTextEnded(() => transport.joined.keep("m", "one"));
    for (const chunk of [...BEGIN, ...words("one ", "two"), { type: "text-end", id: "t" } as const, ...END]) transport.script.chunk(chunk);
    transport.script.end();
    await chat.sendMessage({ text: "count" });
    expect(textOf(chat.lastMessage)).toBe("one");
  });

  test("when the answer goes on, since a call is held", async () => {
    const transport = new Handed(new LiveAnswer(() => undefined));
    const chat = attach(memoryChat(ai, { id: "c", transport }), transport);
    const sending = chat.sendMessage({ text: "count" });
    for (const chunk of [...BEGIN, ...words("one ", "two ")]) transport.script.chunk(chunk);
    await expect.poll(() => textOf(chat.lastMessage)).toBe("one two ");
    transport.script.whenTextEnded(() => transport.joined.keep("m", "one "));
    transport.script.chunk({ type: "text-end", id: "t" });
    await expect.poll(() => textOf(chat.lastMessage)).toBe("one ");
    const more: UIMessageChunk[] = [{ type: "text-start", id: "u" }, { type: "text-delta", id: "u", delta: "paid" }, { type: "text-end", id: "u" }];
    for (const chunk of [...more, ...END]) transport.script.chunk(chunk);
    transport.script.end();
    await sending;
    expect(chat.lastMessage?.parts).toMatchObject([{ type: "step-start" }, { type: "text", text: "one " }, { type: "text", text: "paid" }]);
  });
});

test.each(majors)("ai $version: a turn whose connection has ended for good is not shown", async ({ ai }) => {
  const transport = new Handed(new LiveAnswer(() => undefined));
  const chat = attach(memoryChat(ai, { id: "c", transport }), transport);
  const before = Promise.resolve();
  transport.joined.turn({ requestId: "t", messageId: "m", userMessageId: "u", origin: "voice" }, before);
  await before;
  // Behind the timer that the turn has set.
  await new Promise((resolve) => setTimeout(resolve));
  expect([chat.messages, chat.status]).toEqual([[], "ready"]);
});
