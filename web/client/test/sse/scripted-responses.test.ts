import { afterEach, expect, test, vi } from "vitest";
import type { NotRecoveredError } from "../../src/errors.js";
import type { ResumableSseOptions } from "../../src/sse/resumable-sse-options.js";
import { ResumableSseTransport } from "../../src/sse/resumable-sse-transport.js";
import type { ConnectionState } from "../../src/sse/run-reader.js";
import { drain, sendOptions, userMessage } from "../helpers/messages.js";

// Responses that our server does not send, or not when a test needs them.

type Answer = { status?: number; headers?: Record<string, string>; body?: string } | Error;
interface Asked {
  method: string;
  address: string;
  after: string | null;
}

const CHUNKS = ["start", "start-step", "finish-step", "finish"].map((type, n) => ({ type, n }));
const backoff = { initial: 1, max: 2 };

function events(run: string, ...numbers: number[]): string {
  return numbers.map((n) => `id: ${run}:${n}\ndata: ${JSON.stringify(CHUNKS[n])}\n\n`).join("");
}

function stream(body: string): Answer {
  return { body, headers: { "content-type": "text/event-stream" } };
}

function scripted(answers: Answer[], options: Partial<ResumableSseOptions> = {}): { transport: ResumableSseTransport; asked: Asked[] } {
  const asked: Asked[] = [];
  const fetch = async (input: unknown, init: RequestInit = {}): Promise<Response> => {
    asked.push({ method: init.method ?? "GET", address: String(input), after: new Headers(init.headers).get("last-event-id") });
    const answer = answers.shift() ?? new Error("The script has ended.");
    if (answer instanceof Error) throw answer;
    return new Response(answer.status === 204 ? null : (answer.body ?? ""), { status: answer.status ?? 200, headers: answer.headers ?? {} });
  };
  return { transport: new ResumableSseTransport({ backoff, fetch, ...options }), asked };
}

const hi = sendOptions("c", userMessage("hi"));
const DONE = "data: [DONE]\n\n";

afterEach(() => void vi.unstubAllGlobals());

test("chunks that the server sends again are skipped", async () => {
  const { transport, asked } = scripted([stream(events("r", 0, 1)), stream(events("r", 0, 1, 2)), stream(events("r", 1, 2, 3) + DONE)]);
  expect(await drain(await transport.sendMessages(hi))).toEqual(CHUNKS);
  expect(asked.map(({ method, after }) => [method, after])).toEqual([["POST", null], ["GET", "r:1"], ["GET", "r:2"]]);
});

test("attempts are counted from the last new chunk", async () => {
  const pieces = [0, 1, 2].map((n) => stream(events("r", n)));
  const { transport } = scripted([...pieces, stream(events("r", 3) + DONE)], { backoff: { ...backoff, attempts: 1 } });
  expect(await drain(await transport.sendMessages(hi))).toEqual(CHUNKS);
  const { transport: stuck } = scripted(Array.from({ length: 4 }, () => stream(events("r", 0))), { backoff: { ...backoff, attempts: 2 } });
  await expect(drain(await stuck.sendMessages(hi))).rejects.toThrow("network");
});

test("the parts that a message had before have negative positions, and are resumed in the middle of them", async () => {
  const before = (n: number): string => `id: r:${n}\ndata: ${JSON.stringify({ type: "start-step", n })}\n\n`;
  const { transport, asked } = scripted([stream(before(-3) + before(-2)), stream(before(-1) + events("r", 1, 2, 3) + DONE)]);
  const chunks = await drain(await transport.reconnectToStream({ chatId: "c" }));
  expect(chunks.map((chunk) => (chunk as { n?: number }).n)).toEqual([-3, -2, -1, 1, 2, 3]);
  expect(asked[1]?.after).toBe("r:-2");
});

test.each([
  ["nothing runs any more", { status: 204 }],
  ["the server has forgotten it", { status: 410, body: '{"error": {"code": "not-recovered", "message": "gone"}}' }],
  ["another run is there instead", stream(events("other", 0, 1, 2, 3) + DONE)],
] satisfies [string, Answer][])("when %s, the rest is not recovered", async (_, answer) => {
  const lost: NotRecoveredError[] = [];
  const { transport } = scripted([stream(events("r", 0, 1)), answer], { onNotRecovered: (error) => lost.push(error) });
  const chunks = await transport.sendMessages(hi);
  await expect(drain(chunks)).rejects.toThrow("not recovered");
  expect(lost).toMatchObject([{ chatId: "c", run: "r" }]);
});

test.each([
  ["nothing runs any more", [{ status: 204 }]],
  ["the server has forgotten it", [{ status: 410 }]],
  ["the server is gone", Array.from({ length: 40 }, () => new TypeError("fetch failed"))],
] satisfies [string, Answer[]][])("when only the goodbye was lost and %s, nothing is missing", async (_, answers) => {
  const { transport } = scripted([stream(events("r", 0, 1, 2, 3)), ...answers]);
  expect(await drain(await transport.sendMessages(hi))).toEqual(CHUNKS);
});

test("a regeneration that may have arrived is looked for, and not confused with the run before it", async () => {
  const old = { ...stream(events("old", 0)), headers: { "content-type": "text/event-stream", "x-adkwire-run": "old" } };
  const { transport, asked } = scripted([
    stream(events("old", 0, 3) + DONE),
    new TypeError("fetch failed"), old,
    new TypeError("fetch failed"), { status: 204 },
    new TypeError("fetch failed"), stream(events("new", 0, 1, 2, 3) + DONE),
  ]);
  await drain(await transport.sendMessages(hi));
  expect(await drain(await transport.sendMessages({ ...hi, trigger: "regenerate-message" }))).toEqual(CHUNKS);
  expect(asked.slice(1).map(({ method }) => method)).toEqual(["POST", "GET", "POST", "GET", "POST", "GET"]);
});

test("a regeneration whose run is known is resumed by its name", async () => {
  const named = { headers: { "content-type": "text/event-stream", "x-adkwire-run": "r" } };
  const { transport, asked } = scripted([named, new TypeError("fetch failed"), stream(events("r", 0, 1, 2, 3) + DONE)]);
  expect(await drain(await transport.sendMessages({ ...hi, trigger: "regenerate-message" }))).toEqual(CHUNKS);
  expect(asked.map(({ method, after }) => [method, after])).toEqual([["POST", null], ["GET", "r:-1"], ["GET", "r:-1"]]);
});

test("a message without its first chunk is not recovered", async () => {
  const { transport } = scripted([stream(events("r", 1, 2, 3) + DONE)]);
  await expect(drain(await transport.sendMessages(hi))).rejects.toMatchObject({ name: "NotRecoveredError" });
});

test("a busy server is asked after Retry-After, or at once when the browser is online again", async () => {
  const network = new EventTarget();
  vi.stubGlobal("addEventListener", network.addEventListener.bind(network));
  const states: ConnectionState[] = [];
  const onState = (state: ConnectionState): void => {
    states.push(state);
    if (state.status === "reconnecting") queueMicrotask(() => network.dispatchEvent(new Event("online")));
  };
  const busy = { status: 503, headers: { "retry-after": "30" }, body: '{"error": {"message": "draining"}}' };
  const limit = { status: 429, headers: { "retry-after": "7" } };
  const { transport } = scripted([busy, stream(events("r", 0)), limit, stream(events("r", 1, 2, 3) + DONE)], { onState });
  expect(await drain(await transport.sendMessages(hi))).toEqual(CHUNKS);
  const waits = states.filter(({ status }) => status === "reconnecting").map(({ delay }) => delay ?? 0);
  expect(waits).toMatchObject([30_000, expect.any(Number), 7_000]);
  expect(states.map(({ status }) => status)).toEqual(["reconnecting", "connected", "reconnecting", "reconnecting", "resumed"]);
});

test("a refusal while reconnecting is reported, and a login page is not read as a stream", async () => {
  const page = { body: "<html>", headers: { "content-type": "text/html" } };
  const refused = { status: 401, body: '{"error": {"code": "unauthorized", "message": "Who are you?"}}' };
  const { transport, asked } = scripted([stream(events("r", 0)), page, refused]);
  await expect(drain(await transport.sendMessages(hi))).rejects.toMatchObject({ status: 401, message: "Who are you?" });
  expect(asked).toHaveLength(3);
});

test("an event that is no chunk is an error, not a lost connection", async () => {
  const { transport, asked } = scripted([stream("id: r:0\ndata: 5\n\n")]);
  await expect(drain(await transport.sendMessages(hi))).rejects.toThrow("no chunk");
  expect(asked).toHaveLength(1);
});

test("a stream without positions is not recovered", async () => {
  const { transport } = scripted([stream('data: {"type":"start"}\n\n'), stream(DONE)]);
  await expect(drain(await transport.sendMessages(hi))).rejects.toThrow("not recovered");
});
