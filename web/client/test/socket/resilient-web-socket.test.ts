import { describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { NotRecoveredError } from "../../src/errors.js";
import { ResilientWebSocket, resilientWebSocket } from "../../src/socket/resilient-web-socket.js";
import { FORGOTTEN } from "../helpers/scripted-socket-server.js";
import { begun, official, opened, server, types, useScene } from "../helpers/socket-scene.js";

useScene();

describe("one connection", () => {
  it("offers our subprotocol first and uses it", async () => {
    const { socket } = await opened();
    expect(server.protocols).toEqual([["adkwire.chat.v1"]]);
    expect(socket.protocol).toBe("adkwire.chat.v1");
    expect(socket.readyState).toBe(ResilientWebSocket.OPEN);
    expect(socket.url).toBe(server.url);
  });

  it("delivers official frames only: no positions, pongs and notices", async () => {
    const noise = [JSON.stringify({ type: "notice", level: "warning", code: "server-restart", text: "soon" })];
    const watch = await opened([{ noise }]);
    watch.ask("r");
    await watch.ended("r");
    expect(watch.frames).toEqual(official("r", "answer-0"));
    expect(new Set(watch.notices)).toEqual(new Set(["server-restart"]));
    expect(watch.socket.counters).toEqual({ reconnects: 0, repeated: 0, strange: 0 });
  });

  it("carries many requests at once", async () => {
    const watch = await opened();
    const names = ["a", "b", "c", "d"];
    for (const name of names) watch.ask(name, `chat-${name}`);
    await Promise.all(names.map((name) => watch.ended(name)));
    names.forEach((name, n) => expect(watch.of(name)).toEqual(official(name, `answer-${n}`)));
    expect(server.connections).toBe(1);
  });

  it("calls handlers and listeners", async () => {
    const socket = new (resilientWebSocket({ WebSocket }))(server.url);
    const events: string[] = [];
    socket.addEventListener("open", () => events.push("open"));
    socket.addEventListener("close", (event) => events.push(`close ${(event as CloseEvent).code}`));
    await new Promise((resolve) => socket.addEventListener("open", resolve));
    const closed = new Promise((resolve) => (socket.onclose = resolve));
    socket.close(4000, "enough");
    await closed;
    expect(events).toEqual(["open", "close 4000"]);
  });

  it("refuses to send before it is open, like every WebSocket", async () => {
    const watch = begun();
    expect(() => watch.ask("r")).toThrow("Still connecting");
    await watch.until(() => watch.events.includes("open"));
  });

  it("sends other frames than requests unchanged", async () => {
    const watch = await opened();
    watch.socket.send('{"type":"other","requestId":"x"}');
    await server.until(() => server.frames.length === 1);
    expect(server.frames).toEqual([{ type: "other", requestId: "x" }]);
  });

  it("reports the time from a ping to its pong", async () => {
    const took = new Promise<number>((resolve) => begun({ onLatency: resolve }));
    expect(await took).toBeGreaterThanOrEqual(0);
  });
});

describe("the token", () => {
  it("is sent as a subprotocol", async () => {
    await opened([], { token: "a.b-c_d" });
    expect(server.protocols).toEqual([["adkwire.chat.v1", "adkwire.token.a.b-c_d"]]);
  });

  it("is requested again for every connection", async () => {
    let count = 0;
    const watch = await opened([], { token: async () => `t${(count += 1)}` });
    server.cut();
    await watch.until(() => watch.socket.counters.reconnects === 1);
    expect(server.protocols.map((offered) => offered[1])).toEqual(["adkwire.token.t1", "adkwire.token.t2"]);
  });

  it("is requested again when that fails", async () => {
    let count = 0;
    const token = (): string => {
      count += 1;
      if (count === 1) throw new Error("not now");
      return "t";
    };
    await opened([], { token });
    expect(count).toBe(2);
  });

  it("is sent in the query when a header cannot carry it", async () => {
    const urls: string[] = [];
    class Noting extends WebSocket {
      constructor(url: string | URL, protocols?: string | string[]) {
        super(url, protocols);
        urls.push(String(url));
      }
    }
    await opened([], { WebSocket: Noting, token: "a=b c" });
    expect(urls).toEqual([`${server.url}?token=a%3Db+c`]);
  });
});

describe("a lost connection", () => {
  it("in the middle of a message is not noticed: the request resumes after its last chunk", async () => {
    const watch = await opened([{ cutAfter: 5 }]);
    watch.ask("r");
    await watch.ended("r");
    expect(watch.frames).toEqual(official("r", "answer-0"));
    expect(watch.events).toEqual(["open"]);
    expect(server.received[1]?.find((frame) => frame.type === "resume")).toEqual({
      type: "resume",
      requestId: "r",
      id: "c",
      lastSequence: 3,
      after: "answer-0:3",
      headers: {},
      body: { client: "ai/7.0.169" },
    });
  });

  it("before the first frame repeats the request", async () => {
    const watch = await opened([{ cutOn: "send" }]);
    watch.ask("r");
    await watch.ended("r");
    expect(watch.frames).toEqual(official("r", "answer-0"));
    expect(server.frames[0]).toEqual(server.frames[1]);
    expect(server.runs.size).toBe(1);
  });

  it("between start and the first chunk delivers one start", async () => {
    const watch = await opened([{ cutAfter: 1 }]);
    watch.ask("r");
    await watch.ended("r");
    expect(watch.frames).toEqual(official("r", "answer-0"));
  });

  it("resumes every open request, in order, and no finished one", async () => {
    const watch = await opened();
    watch.ask("done", "x");
    await watch.ended("done");
    server.limit = 6;
    for (const name of ["a", "b"]) watch.ask(name, name);
    await watch.until(() => ["a", "b"].every((name) => watch.of(name).length === 7));
    server.cut();
    await watch.until(() => watch.socket.counters.reconnects === 1);
    watch.ask("late", "l");
    server.allow(Number.POSITIVE_INFINITY);
    await Promise.all(["a", "b", "late"].map((name) => watch.ended(name)));
    expect(server.received[1]?.filter((f) => f.type !== "ping").map((f) => [f.type, f.requestId])).toEqual([
      ["resume", "a"],
      ["resume", "b"],
      ["send", "late"],
    ]);
    ["done", "a", "b", "late"].forEach((name, n) => expect(watch.of(name)).toEqual(official(name, `answer-${n}`)));
  });

  it("during a resume repeats it, and delivers that no run is active", async () => {
    const watch = await opened([{ cutOn: "resume" }]);
    watch.ask("r", "c", "resume");
    await watch.ended("r");
    expect(watch.frames).toEqual([{ type: "no-active", requestId: "r" }]);
    expect(types(1)).toEqual(["resume"]);
  });

  it("of a resumed message resumes it again", async () => {
    server.limit = 4;
    const first = await opened();
    first.ask("r");
    await first.until(() => first.frames.length === 5);
    const second = await opened([{ cutAfter: 3 }]);
    second.ask("again", "c", "resume");
    await second.until(() => second.socket.counters.reconnects === 1);
    server.allow(Number.POSITIVE_INFINITY);
    await second.ended("again");
    expect(second.frames).toEqual(official("again", "answer-0"));
  });

  it("during which a started run has ended is an error", async () => {
    server.limit = 0;
    const first = await opened();
    first.ask("r");
    const second = await opened();
    second.ask("again", "c", "resume");
    await second.until(() => second.frames.length === 1);
    for (const run of server.runs.values()) run.stopped = true;
    server.cut();
    const last = await second.ended("again");
    expect(last).toMatchObject({ type: "error", errorText: expect.stringContaining("could not be recovered") });
  });

  it("that lasts longer than the server keeps the run ends this request with an error, and no other", async () => {
    const errors: Error[] = [];
    const lost: Error[] = [];
    const callbacks = { onError: (error: Error) => errors.push(error), onNotRecovered: (error: Error) => lost.push(error) };
    const watch = await opened([{ cutAfter: 5 }, { refusal: FORGOTTEN }], callbacks);
    watch.ask("r");
    expect(await watch.ended("r")).toEqual({ type: "error", requestId: "r", errorText: "gone" });
    expect(watch.socket.readyState).toBe(ResilientWebSocket.OPEN);
    expect(lost).toEqual([expect.any(NotRecoveredError)]);
    expect(lost).toMatchObject([{ chatId: "c", run: "answer-0" }]);
    expect(errors).toEqual(lost);
  });

  it("does not report the error of an aborted request", async () => {
    const errors: Error[] = [];
    server.limit = 4;
    const watch = await opened([{}, { refusal: FORGOTTEN }], { onError: (error) => errors.push(error) });
    watch.ask("r");
    await watch.until(() => watch.frames.length === 5);
    server.cut();
    await watch.until(() => watch.states.at(-1) === "reconnecting");
    watch.abort("r");
    expect(await watch.ended("r")).toMatchObject({ type: "error" });
    expect(errors).toEqual([]);
  });

  it("accepts requests meanwhile and counts them as buffered", async () => {
    const watch = await opened([], { backoff: { initial: 10_000, max: 10_000 } });
    server.cut();
    await watch.until(() => watch.states.at(-1) === "reconnecting");
    expect(watch.socket.bufferedAmount).toBe(0);
    watch.ask("r");
    expect(watch.socket.bufferedAmount).toBeGreaterThan(50);
    expect(watch.socket.readyState).toBe(ResilientWebSocket.OPEN);
  });

  it("sends requests that were made meanwhile", async () => {
    const watch = await opened();
    server.cut();
    await watch.until(() => watch.states.at(-1) === "reconnecting");
    watch.ask("r");
    watch.socket.send('{"type":"other","requestId":"x"}');
    await watch.ended("r");
    expect(types(1)).toEqual(["send", "other"]);
    expect(watch.frames).toEqual(official("r", "answer-0"));
  });

  it("reports its states", async () => {
    const watch = await opened([{ cutAfter: 3 }, { cutOn: "resume" }]);
    watch.ask("r");
    await watch.ended("r");
    watch.socket.close();
    await watch.until(() => watch.close !== undefined);
    expect(watch.states).toEqual(["connecting", "open", "reconnecting", "open", "reconnecting", "open", "closed"]);
  });
});

describe("abort", () => {
  it("stops the run", async () => {
    server.limit = 5;
    const watch = await opened();
    watch.ask("r");
    await watch.until(() => watch.frames.length === 6);
    watch.abort("r");
    expect((await watch.ended("r")).type).toBe("end");
    expect(types(0)).toEqual(["send", "abort"]);
  });

  it("without a connection is sent on the next one, after the resume", async () => {
    server.limit = 5;
    const watch = await opened();
    watch.ask("r");
    await watch.until(() => watch.frames.length === 6);
    server.cut();
    await watch.until(() => watch.states.at(-1) === "reconnecting");
    watch.abort("r");
    expect((await watch.ended("r")).type).toBe("end");
    expect(types(1)).toEqual(["resume", "abort"]);
    expect([...server.runs.values()].map((run) => run.stopped)).toEqual([true]);
  });

  it("that was lost on its way is sent again", async () => {
    server.limit = 5;
    const watch = await opened([{ cutOn: "abort" }]);
    watch.ask("r");
    await watch.until(() => watch.frames.length === 6);
    watch.abort("r");
    await watch.ended("r");
    expect([types(0), types(1)]).toEqual([["send", "abort"], ["resume", "abort"]]);
  });

  it("of a message that may have arrived sends the message again and stops it", async () => {
    const watch = await opened([{ cutOn: "send" }]);
    watch.ask("r");
    await watch.until(() => watch.states.at(-1) === "reconnecting");
    watch.abort("r");
    await watch.ended("r");
    expect(types(1)).toEqual(["send", "abort"]);
  });

  it("of a message that was sent on the new connection stops it", async () => {
    server.limit = 3;
    const watch = await opened();
    server.cut();
    await watch.until(() => watch.states.at(-1) === "reconnecting");
    watch.ask("r");
    await watch.until(() => watch.frames.length === 4);
    watch.abort("r");
    expect((await watch.ended("r")).type).toBe("end");
    expect(types(1)).toEqual(["send", "abort"]);
  });

  it("of a message that was not sent removes it", async () => {
    const watch = await opened();
    server.cut();
    await watch.until(() => watch.states.at(-1) === "reconnecting");
    watch.ask("r");
    watch.abort("r");
    watch.ask("next");
    await watch.ended("next");
    expect(server.frames.map((frame) => frame.requestId)).toEqual(["next"]);
  });
});
