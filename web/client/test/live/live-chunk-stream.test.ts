import type { UIMessageChunk } from "ai";
import { describe, expect, test } from "vitest";
import { attach } from "../../src/live/attach.js";
import { LiveChunkStream } from "../../src/live/live-chunk-stream.js";
import type { LiveAttachment } from "../../src/live/live-attachment.js";
import { LiveChatTransport } from "../../src/live/live-chat-transport.js";
import { majors } from "../helpers/majors.js";
import { memoryChat } from "../helpers/memory-chat.js";
import { drain, textOf } from "../helpers/messages.js";

const BEGIN: UIMessageChunk[] = [{ type: "start", messageId: "m" }, { type: "start-step" }, { type: "text-start", id: "t" }];
const END: UIMessageChunk[] = [{ type: "finish-step" }, { type: "finish" }];

function words(...texts: string[]): UIMessageChunk[] {
  return texts.map((delta) => ({ type: "text-delta", id: "t", delta }));
}

/** A transport whose stream the test writes, and which shows the test what was attached to it. */
class ScriptedTransport extends LiveChatTransport {
  attached!: LiveAttachment;

  constructor(readonly script: LiveChunkStream) {
    super({ url: "ws://127.0.0.1:1/api/live", chat: "c" });
  }

  override async sendMessages(): Promise<ReadableStream<UIMessageChunk>> {
    return this.script.stream;
  }

  override "~attach"(attachment: LiveAttachment): void {
    this.attached = attachment;
  }
}

describe("a stream of chunks", () => {
  test("brings chunks in order and runs tasks between them", async () => {
    const stream = new LiveChunkStream(() => undefined);
    const seen: string[] = [];
    for (const chunk of [...BEGIN, ...words("a")]) stream.chunk(chunk);
    stream.whenTextEnded(() => seen.push("behind the text"));
    for (const chunk of [...words("b"), { type: "text-end", id: "t" } as const]) stream.chunk(chunk);
    stream.chunk(END[0] as UIMessageChunk);
    stream.end();
    for await (const chunk of stream.stream) seen.push(chunk.type);
    expect(seen).toEqual(["start", "start-step", "text-start", "text-delta", "text-delta", "text-end", "behind the text", "finish-step"]);
    await stream.drained;
  });

  test("runs the tasks that are left when it ends", async () => {
    const stream = new LiveChunkStream(() => undefined);
    const seen: string[] = [];
    for (const chunk of BEGIN) stream.chunk(chunk);
    stream.whenTextEnded(() => seen.push("kept"));
    stream.end();
    await drain(stream.stream);
    expect(seen).toEqual(["kept"]);
  });

  test("brings its chunks before its error", async () => {
    const stream = new LiveChunkStream(() => undefined);
    for (const chunk of BEGIN) stream.chunk(chunk);
    stream.fail(new Error("lost"));
    const seen: string[] = [];
    const reading = (async () => {
      for await (const chunk of stream.stream) seen.push(chunk.type);
    })();
    await expect(reading).rejects.toThrow("lost");
    expect(seen).toEqual(["start", "start-step", "text-start"]);
  });

  test("can be cancelled while its reader waits for a chunk", async () => {
    let cancelled = 0;
    const stream = new LiveChunkStream(() => cancelled++);
    const reader = stream.stream.getReader();
    const waiting = reader.read();
    await reader.cancel();
    expect([await waiting, cancelled]).toEqual([{ done: true, value: undefined }, 1]);
    await stream.drained;
    stream.chunk({ type: "start" });
    stream.end();
  });

  test("is null when no run is active", async () => {
    const stream = new LiveChunkStream(() => undefined);
    stream.endEmpty();
    expect(await stream.response).toBeNull();
  });
});

describe.each(majors)("ai $version: text that was not played is removed", ({ ai }) => {
  test("when the message ends after the interruption", async () => {
    const transport = new ScriptedTransport(new LiveChunkStream(() => undefined));
    const chat = attach(memoryChat(ai, { id: "c", transport }), transport);
    for (const chunk of [...BEGIN, ...words("one ", "two ", "three")]) transport.script.chunk(chunk);
    transport.script.whenTextEnded(() => transport.attached.keepText("m", "one"));
    for (const chunk of [...words(" four"), { type: "text-end", id: "t" } as const, ...END]) transport.script.chunk(chunk);
    transport.script.end();
    await chat.sendMessage({ text: "count" });
    expect([chat.status, textOf(chat.lastMessage)]).toEqual(["ready", "one"]);
  });

  test("when the text comes after the interruption", async () => {
    const transport = new ScriptedTransport(new LiveChunkStream(() => undefined));
    const chat = attach(memoryChat(ai, { id: "c", transport }), transport);
    transport.script.whenTextEnded(() => transport.attached.keepText("m", "one"));
    for (const chunk of [...BEGIN, ...words("one ", "two"), { type: "text-end", id: "t" } as const, ...END]) transport.script.chunk(chunk);
    transport.script.end();
    await chat.sendMessage({ text: "count" });
    expect(textOf(chat.lastMessage)).toBe("one");
  });

  test("when the message goes on because a call is held", async () => {
    const transport = new ScriptedTransport(new LiveChunkStream(() => undefined));
    const chat = attach(memoryChat(ai, { id: "c", transport }), transport);
    const sending = chat.sendMessage({ text: "count" });
    for (const chunk of [...BEGIN, ...words("one ", "two ")]) transport.script.chunk(chunk);
    await expect.poll(() => textOf(chat.lastMessage)).toBe("one two ");
    transport.script.whenTextEnded(() => transport.attached.keepText("m", "one "));
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
  const transport = new ScriptedTransport(new LiveChunkStream(() => undefined));
  const chat = attach(memoryChat(ai, { id: "c", transport }), transport);
  const before = Promise.resolve();
  transport.attached.showTurn({ requestId: "t", messageId: "m", userMessageId: "u", origin: "voice" }, before);
  await before;
  // After the timer that showTurn has set.
  await new Promise((resolve) => setTimeout(resolve));
  expect([chat.messages, chat.status]).toEqual([[], "ready"]);
});
