import { expect, test } from "vitest";
import { type SseEvent, SseParser } from "../../src/sse/sse-parser.js";

const STREAM = [
  "\uFEFFid: r:0\r\ndata: {\"a\":1}\r\n\r\n",
  ": keep-alive\n\n",
  "event: x\rid: r:1\rdata: 東京 🗼\r\r",
  "data\ndata:two\ndata:  three\nretry: 5\nid: r:2\n\n",
  "id: r:3\n\n",
  "data: plain\r\n\n",
  "data: never ended\n",
].join("");
const EVENTS: SseEvent[] = [
  { data: '{"a":1}', id: "r:0" },
  { data: "東京 🗼", id: "r:1" },
  { data: "\ntwo\n three", id: "r:2" },
  { data: "plain", id: undefined },
];
const BYTES = new TextEncoder().encode(STREAM);

function parse(...pieces: Uint8Array[]): SseEvent[] {
  const parser = new SseParser();
  return pieces.flatMap((piece) => parser.push(piece));
}

test("reads every form of event", () => {
  expect(parse(BYTES)).toEqual(EVENTS);
});

test("reads the same events from bytes that are split anywhere", () => {
  for (let at = 0; at <= BYTES.length; at++) {
    expect(parse(BYTES.subarray(0, at), BYTES.subarray(at)), `cut at ${at}`).toEqual(EVENTS);
  }
  expect(parse(...Array.from(BYTES, (byte) => Uint8Array.of(byte)))).toEqual(EVENTS);
});

test("a line end in two pieces is one, and the blank line after it is another", () => {
  const pieces = ["data: a\r", "\n", "\r", "\n", "data: b\n", "\n"].map((piece) => new TextEncoder().encode(piece));
  expect(parse(...pieces).map((event) => event.data)).toEqual(["a", "b"]);
});

test("returns nothing of an event that did not end", () => {
  for (let at = 0; at <= BYTES.length; at++) {
    const events = parse(BYTES.subarray(0, at));
    expect(events).toEqual(EVENTS.slice(0, events.length));
  }
});

test("an event without an end is refused", () => {
  const parser = new SseParser(1000);
  const piece = new TextEncoder().encode("x".repeat(100));
  expect(() => {
    for (let i = 0; i < 11; i++) parser.push(piece);
  }).toThrow("too large");
});

test("many events are not one large event", () => {
  const parser = new SseParser(1000);
  const piece = new TextEncoder().encode(`data: ${"x".repeat(500)}\n\n`);
  for (let i = 0; i < 10; i++) expect(parser.push(piece)).toHaveLength(1);
});
