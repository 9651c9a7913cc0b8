import { describe, expect, it, vi } from "vitest";
import { WebSocket } from "ws";
import { ResilientWebSocket } from "../../src/socket/resilient-web-socket.js";
import type { Fault } from "../helpers/scripted-socket-server.js";
import { seededRandom } from "../helpers/seeded-random.js";
import { begun, official, opened, server, TIMERS, useScene } from "../helpers/socket-scene.js";
import { QUICK } from "../helpers/socket-watch.js";

useScene();

describe("a server that misbehaves", () => {
  it("and repeats its frames: each is delivered once", async () => {
    const watch = await opened([{ twice: true }]);
    watch.ask("r");
    await watch.ended("r");
    expect(watch.frames).toEqual(official("r", "answer-0"));
    expect(watch.socket.counters.repeated).toBe(server.words + 6);
  });

  it("and leaves out a chunk: it is requested on a new connection", async () => {
    const watch = await opened([{ without: 4 }]);
    watch.ask("r");
    await watch.ended("r");
    expect(watch.frames).toEqual(official("r", "answer-0"));
    expect(watch.socket.counters.reconnects).toBe(1);
  });

  it("and leaves out several chunks: each is requested", async () => {
    const watch = await opened([{ without: 4 }, { without: 6 }, { without: 8 }, { without: 10 }]);
    watch.ask("r");
    await watch.ended("r");
    expect(watch.frames).toEqual(official("r", "answer-0"));
  });

  it("and never sends a chunk: the request fails", async () => {
    const lost: Error[] = [];
    const onNotRecovered = (error: Error): unknown => lost.push(error);
    const watch = await opened([{ without: 4 }, { without: 4 }, { without: 4 }], { onNotRecovered });
    watch.ask("r");
    expect(await watch.ended("r")).toMatchObject({ type: "error", errorText: expect.stringContaining("lost") });
    expect(server.connections).toBe(3);
    expect(lost).toMatchObject([{ name: "NotRecoveredError", chatId: "c" }]);
  });

  it.each<[string, string | Buffer, string]>([
    ["no JSON", "{", "malformed-frame"],
    ["no object", "[1]", "malformed-frame"],
    ["null", "null", "malformed-frame"],
    ["no type", '{"requestId":"r"}', "malformed-frame"],
    ["a chunk without a sequence", '{"type":"chunk","requestId":"r","chunk":{}}', "malformed-frame"],
    ["a chunk with a broken sequence", '{"type":"chunk","requestId":"r","sequence":-1,"chunk":{}}', "malformed-frame"],
    ["a chunk that is none", '{"type":"chunk","requestId":"r","sequence":0,"chunk":7}', "malformed-frame"],
    ["an end of nothing", '{"type":"end"}', "malformed-frame"],
    ["an unknown type", '{"type":"dance","requestId":"r"}', "unknown-frame"],
    ["binary", Buffer.from([1, 2, 3]), "unknown-frame"],
  ])("and writes %s: the frame is ignored", async (_, noise, code) => {
    const watch = await opened([{ noise: [noise] }]);
    watch.ask("r");
    await watch.ended("r");
    expect(watch.frames).toEqual(official("r", "answer-0"));
    expect(watch.socket.counters.strange).toBe(server.words + 8);
    expect(new Set(watch.notices)).toEqual(new Set([code]));
    expect(watch.events).toEqual(["open"]);
  });

  it("and answers an unknown request: the frame is ignored", async () => {
    const watch = await opened([{ noise: ['{"type":"end","requestId":"somebody"}'] }]);
    watch.ask("r");
    await watch.ended("r");
    expect(watch.frames).toEqual(official("r", "answer-0"));
  });

  it("and sends an error without a request: it is a notice", async () => {
    const watch = await opened([{ noise: ['{"type":"error","errorText":"what?","code":"malformed"}'] }]);
    watch.ask("r");
    await watch.ended("r");
    expect(new Set(watch.notices)).toEqual(new Set(["malformed"]));
  });

  it("and becomes silent: a new connection is made", async () => {
    const watch = await opened([{ silent: true }], { pingInterval: 20, silence: 100 });
    watch.ask("r");
    await watch.ended("r");
    expect(watch.frames).toEqual(official("r", "answer-0"));
  });

  it("and does not answer the handshake: it is tried again", async () => {
    vi.useFakeTimers({ toFake: TIMERS });
    server.faults = [{ status: 0 }];
    const watch = begun();
    await server.until(() => server.connections === 1);
    vi.advanceTimersByTime(10_000 + QUICK.max);
    await watch.until(() => watch.events.includes("open"));
    expect(server.connections).toBe(2);
  });

  it("and answers no handshake: the socket gives up", async () => {
    server.faults = Array.from({ length: 3 }, () => ({ status: 0 }));
    const watch = begun({ connectTimeout: 20, backoff: { ...QUICK, attempts: 3 } });
    await watch.until(() => watch.events.includes("error"));
    expect(watch.events).toEqual(["close", "error"]);
    expect(watch.close).toEqual({ code: 1006, reason: "no connection in 3 attempts: no connection within 20 ms" });
  });

  it("and is not reachable: the first connection gets at most 8 attempts", async () => {
    server.faults = Array.from({ length: 20 }, () => ({ status: 503 }));
    const watch = begun();
    await watch.until(() => watch.close !== undefined);
    expect(server.connections).toBe(8);
    expect(watch.close?.code).toBe(1006);
  });

  it("and refuses the handshake: the socket gives up at once", async () => {
    server.faults = [{ status: 403 }];
    const watch = begun();
    await watch.until(() => watch.events.includes("error"));
    expect(watch.errors).toEqual(["The server refused the connection: HTTP 403"]);
    expect(server.connections).toBe(1);
  });
});

describe("close codes", () => {
  it.each([1001, 1006, 1011, 1012, 4408, 4503, 1000])("%i in the middle of a message reconnects", async (code) => {
    const fault = code === 1006 ? { cutAfter: 4 } : { close: { code, after: 4 } };
    const watch = await opened([fault]);
    watch.ask("r");
    await watch.ended("r");
    expect(watch.frames).toEqual(official("r", "answer-0"));
    expect(watch.events).toEqual(["open"]);
  });

  it("4429 reconnects after at least a second", async () => {
    vi.useFakeTimers({ toFake: TIMERS });
    let dialled = 0;
    class Counted extends WebSocket {
      constructor(url: string | URL, protocols?: string | string[]) {
        super(url, protocols);
        dialled += 1;
      }
    }
    const watch = await opened([{ close: { code: 4429, after: 4 } }], { WebSocket: Counted });
    watch.ask("r");
    await watch.until(() => watch.states.at(-1) === "reconnecting");
    vi.advanceTimersByTime(999);
    expect(dialled).toBe(1);
    vi.advanceTimersByTime(1);
    expect(dialled).toBe(2);
    await watch.ended("r");
    expect(watch.frames).toEqual(official("r", "answer-0"));
  });

  it.each([1008, 1009, 4404])("%i ends the socket and all its requests, with the reason", async (code) => {
    const watch = await opened([{ close: { code, reason: "so it is", after: 4 } }]);
    watch.ask("r");
    await watch.until(() => watch.events.includes("error"));
    expect(watch.of("r").at(-1)).toEqual({ type: "error", requestId: "r", errorText: expect.stringContaining("so it is") });
    expect(watch.events).toEqual(["open", "close", "error"]);
    expect(watch.close).toEqual({ code, reason: expect.stringContaining("so it is") });
    expect(watch.errors).toEqual([watch.close?.reason]);
    expect(watch.socket.readyState).toBe(ResilientWebSocket.CLOSED);
    expect(server.connections).toBe(1);
  });

  it.each([4408, 1000])("%i while the socket is idle waits for the next message", async (code) => {
    const watch = await opened();
    for (const socket of server.sockets) socket.close(code);
    await watch.until(() => watch.states.at(-1) === "idle");
    expect(watch.socket.readyState).toBe(ResilientWebSocket.OPEN);
    expect(server.connections).toBe(1);
    watch.ask("r");
    await watch.ended("r");
    expect(watch.frames).toEqual(official("r", "answer-0"));
    expect(server.connections).toBe(2);
  });

  it("do not reconnect for the abort of a request that has ended", async () => {
    const watch = await opened();
    for (const socket of server.sockets) socket.close(4408);
    await watch.until(() => watch.states.at(-1) === "idle");
    watch.abort("r");
    expect(watch.states.at(-1)).toBe("idle");
  });

  it("of a server that accepts and then closes each time end the attempts", async () => {
    const watch = await opened(
      Array.from({ length: 20 }, () => ({ close: { code: 4503, reason: "a store does not answer", after: 1 } })),
      { backoff: { ...QUICK, attempts: 5 } },
    );
    watch.ask("r");
    await watch.until(() => watch.close !== undefined);
    expect(watch.close).toEqual({ code: 1006, reason: "no connection in 5 attempts: a store does not answer" });
    expect(server.connections).toBe(5);
  });

  it("after a connection that lasted: the attempts are counted from 0", async () => {
    const brief = Array.from({ length: 3 }, () => ({ cutOn: "ping" }));
    const watch = await opened([...brief, {}, ...brief], { backoff: { ...QUICK, attempts: 5 }, pingInterval: 5 });
    await server.until(() => (server.received[3]?.length ?? 0) > 2);
    server.cut();
    await watch.until(() => watch.socket.counters.reconnects === 7);
    expect(watch.events).toEqual(["open"]);
  });
});

describe("connections lost at random", () => {
  it.each(Array.from({ length: 12 }, (_, seed) => seed))("seed %i: nothing lost, doubled or out of order", async (seed) => {
    const random = seededRandom(seed);
    server.words = 30;
    const faults = Array.from({ length: 2 + Math.floor(random() * 5) }, () => randomFault(random));
    const watch = await opened(faults);
    const names = ["a", "b", "c"];
    for (const name of names) watch.ask(name, name);
    await Promise.all(names.map((name) => watch.ended(name)));
    for (const name of names) {
      const run = server.runs.get(`${name}/question-${name}`);
      expect(watch.of(name)).toEqual(official(name, run?.id ?? ""));
    }
    expect(watch.events).toEqual(["open"]);
    expect(server.runs.size).toBe(3);
  });
});

function randomFault(random: () => number): Fault {
  const after = Math.floor(random() * 40);
  const faults: Fault[] = [
    { cutAfter: after },
    { cutAfter: after, twice: true },
    { close: { code: [1001, 1011, 4503][after % 3] as number, after: after + 1 } },
    { cutOn: random() < 0.5 ? "send" : "resume" },
    { without: after, noise: ["{"] },
  ];
  return faults[Math.floor(random() * faults.length)] as Fault;
}
