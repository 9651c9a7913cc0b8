import { randomUUID } from "node:crypto";
import { describe, expect, inject, test } from "vitest";
import { HttpError } from "../../src/errors.js";
import { ResumableSseTransport } from "../../src/sse/resumable-sse-transport.js";
import { majors } from "../helpers/majors.js";
import { memoryChat } from "../helpers/memory-chat.js";
import { drain, sendOptions, userMessage } from "../helpers/messages.js";

const url = inject("serverUrl");
const backoff = { initial: 1, max: 2, attempts: 3 };

describe.each(majors)("ai $version", ({ ai }) => {
  test("a failing model is an error of the chat, with the server's text", async () => {
    const chat = memoryChat(ai, { id: randomUUID(), transport: new ResumableSseTransport({ api: `${url}/api/chat` }) });
    await chat.sendMessage({ text: "fail" });
    expect(chat.status).toBe("error");
    expect(chat.error?.message).toBeTruthy();
    await chat.sendMessage({ text: "count to 2" });
    expect(chat.status).toBe("ready");
  });

  test("a refusal is an error with the server's message", async () => {
    const chat = memoryChat(ai, { id: "no such/id?".repeat(100), transport: new ResumableSseTransport({ api: `${url}/api/chat` }) });
    await chat.sendMessage({ text: "hi" });
    expect(chat.error).toBeInstanceOf(HttpError);
    expect(chat.error).toMatchObject({ status: 422 });
    expect(chat.error?.message).not.toMatch(/[{}]/);
  });

  test("nothing to resume is no error", async () => {
    const chat = memoryChat(ai, { id: randomUUID(), transport: new ResumableSseTransport({ api: `${url}/api/chat` }) });
    await chat.resumeStream();
    expect(chat.status).toBe("ready");
  });
});

test("a wrong address is reported at once", async () => {
  const transport = new ResumableSseTransport({ api: `${url}/healthz`, backoff });
  await expect(transport.sendMessages(sendOptions("c", userMessage("hi")))).rejects.toMatchObject({ status: 405 });
  const page = new ResumableSseTransport({
    backoff, fetch: async () => new Response("<html>", { headers: { "content-type": "text/html" } }),
  });
  await expect(page.sendMessages(sendOptions("c", userMessage("hi")))).rejects.toThrow("Is the address right?");
  await expect(new ResumableSseTransport({ api: "//:" }).sendMessages(sendOptions("c", userMessage("hi")))).rejects.toThrow("URL");
});

test("headers and body are those of the transport and of the call, resolved anew for every attempt", async () => {
  const seen: { headers: Headers; body: Record<string, unknown> }[] = [];
  let token = 0;
  const transport = new ResumableSseTransport({
    api: `${url}/api/chat`, backoff, client: "ai/7.0.169",
    headers: async () => ({ Authorization: `Bearer ${++token}` }), body: { mine: 1, id: "not this" },
    fetch: async (input, init) => {
      seen.push({ headers: new Headers(init?.headers), body: JSON.parse(String(init?.body)) as Record<string, unknown> });
      if (seen.length < 3) throw new TypeError("fetch failed");
      return fetch(input, init);
    },
  });
  const chatId = randomUUID();
  await drain(await transport.sendMessages({ ...sendOptions(chatId, userMessage("count to 1")), headers: { "X-One": "1" }, body: { more: 2 } }));
  expect(seen.map(({ headers }) => headers.get("authorization"))).toEqual(["Bearer 1", "Bearer 2", "Bearer 3"]);
  expect(seen[2]?.headers.get("x-one")).toBe("1");
  expect(seen[2]?.headers.get("x-adkwire-client")).toBe("ai/7.0.169");
  expect(seen[2]?.body).toMatchObject({ mine: 1, more: 2, id: chatId, trigger: "submit-message" });
  expect(seen[0]?.body).toEqual(seen[2]?.body);
});

test("a request can be prepared, as in DefaultChatTransport", async () => {
  const bodies: unknown[] = [];
  const transport = new ResumableSseTransport({
    api: "/not/here",
    prepareSendMessagesRequest: ({ id, messages, trigger }) =>
      ({ api: `${url}/api/chat`, body: { id, message: messages.at(-1), trigger }, headers: { "x-own": "1" } }),
    fetch: async (input, init) => {
      bodies.push(init?.body);
      return fetch(input, init);
    },
  });
  const chunks = await drain(await transport.sendMessages(sendOptions(randomUUID(), userMessage("count to 2"))));
  expect(chunks.at(-1)).toMatchObject({ type: "finish" });
  expect(Object.keys(JSON.parse(String(bodies[0])) as object)).toEqual(["id", "message", "trigger"]);
});
