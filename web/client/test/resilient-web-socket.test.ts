import { describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { NotRecoveredError } from "../src/not-recovered-error.js";
import { ResilientWebSocket, resilientWebSocket } from "../src/resilient-web-socket.js";
import { FORGOTTEN } from "./scripted-socket-server.js";
import { begun, official, opened, server, types, useScene } from "./socket-scene.js";

useScene();

describe("one connection", () => {
  it("offers the subprotocol before those of the owner, and speaks it", async () => {
    const { socket } = await opened();
    expect(server.protocols).toEqual([["adkwire.chat.v1"]]);
    expect(socket.protocol).toBe("adkwire.chat.v1");
    expect(socket.readyState).toBe(ResilientWebSocket.OPEN);
    expect(socket.url).toBe(server.url);
  });

  it("passes on official frames only, without places, pongs and notices", async () => {
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

  it("tells of its events in both ways", async () => {
    const socket = new (resilientWebSocket({ WebSocket }))(server.url);
    const heard: string[] = [];
    socket.addEventListener("open", () => heard.push("open"));
    socket.addEventListener("close", (event) => heard.push(`close ${(event as CloseEvent).code}`));
    await new Promise((resolve) => socket.addEventListener("open", resolve));
    const closed = new Promise((resolve) => (socket.onclose = resolve));
    socket.close(4000, "enough");
    await closed;
    expect(heard).toEqual(["open", "close 4000"]);
  });

  it("refuses to send before it is open, as every WebSocket", async () => {
    const watch = begun();
    expect(() => watch.ask("r")).toThrow("Still connecting");
    await watch.until(() => watch.events.includes("open"));
  });

  it("sends what is no request as it is", async () => {
    const watch = await opened();
    watch.socket.send('{"type":"other","requestId":"x"}');
    await server.until(() => server.frames.length === 1);
    expect(server.frames).toEqual([{ type: "other", requestId: "x" }]);
  });

  it("measures how long an answer to a ping takes", async () => {
    const took = new Promise<number>((resolve) => begun({ onLatency: resolve }));
    expect(await took).toBeGreaterThanOrEqual(0);
  });
});

describe("the token", () => {
  it("goes as a subprotocol", async () => {
    await opened([], { token: "a.b-c_d" });
    expect(server.protocols).toEqual([["adkwire.chat.v1", "adkwire.token.a.b-c_d"]]);
  });

  it("is asked for anew for every connection", async () => {
    let count = 0;
    const watch = await opened([], { token: async () => `t${(count += 1)}` });
    server.cut();
    await watch.until(() => watch.socket.counters.reconnects === 1);
    expect(server.protocols.map((offered) => offered[1])).toEqual(["adkwire.token.t1", "adkwire.token.t2"]);
  });

  it("is tried again when it cannot be had", async () => {
    let count = 0;
    const token = (): string => {
      count += 1;
      if (count === 1) throw new Error("not now");
      return "t";
    };
    await opened([], { token });
    expect(count).toBe(2);
  });

  it("goes in the query when no header can carry it", async () => {
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

describe("a drop", () => {
  it("in mid-answer is not seen: the request goes on behind its last chunk", async () => {
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

  it("before any answer sends the same frame again", async () => {
    const watch = await opened([{ cutOn: "send" }]);
    watch.ask("r");
    await watch.ended("r");
    expect(watch.frames).toEqual(official("r", "answer-0"));
    expect(server.frames[0]).toEqual(server.frames[1]);
    expect(server.runs.size).toBe(1);
  });

  it("between start and the first chunk tells of one start", async () => {
    const watch = await opened([{ cutAfter: 1 }]);
    watch.ask("r");
    await watch.ended("r");
    expect(watch.frames).toEqual(official("r", "answer-0"));
  });

  it("takes up every open request, in order, and no finished one", async () => {
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

  it("while a resume is unanswered asks again, and passes on that nothing runs", async () => {
    const watch = await opened([{ cutOn: "resume" }]);
    watch.ask("r", "c", "resume");
    await watch.ended("r");
    expect(watch.frames).toEqual([{ type: "no-active", requestId: "r" }]);
    expect(types(1)).toEqual(["resume"]);
  });

  it("of a resumed answer goes on as well", async () => {
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

  it("behind which an answer just begun is over ends with an error, not in silence", async () => {
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

  it("too long for the server to remember ends the request with its error, and only that", async () => {
    const heard: Error[] = [];
    const lost: Error[] = [];
    const hearing = { onError: (error: Error) => heard.push(error), onNotRecovered: (error: Error) => lost.push(error) };
    const watch = await opened([{ cutAfter: 5 }, { refusal: FORGOTTEN }], hearing);
    watch.ask("r");
    expect(await watch.ended("r")).toEqual({ type: "error", requestId: "r", errorText: "gone" });
    expect(watch.socket.readyState).toBe(ResilientWebSocket.OPEN);
    expect(lost).toEqual([expect.any(NotRecoveredError)]);
    expect(lost).toMatchObject([{ chatId: "c", run: "answer-0" }]);
    expect(heard).toEqual(lost);
  });

  it("does not tell of an error that nobody waits for any more", async () => {
    const heard: Error[] = [];
    server.limit = 4;
    const watch = await opened([{}, { refusal: FORGOTTEN }], { onError: (error) => heard.push(error) });
    watch.ask("r");
    await watch.until(() => watch.frames.length === 5);
    server.cut();
    await watch.until(() => watch.states.at(-1) === "reconnecting");
    watch.abort("r");
    expect(await watch.ended("r")).toMatchObject({ type: "error" });
    expect(heard).toEqual([]);
  });

  it("accepts requests while away and counts them as buffered", async () => {
    const watch = await opened([], { backoff: { initial: 10_000, max: 10_000 } });
    server.cut();
    await watch.until(() => watch.states.at(-1) === "reconnecting");
    expect(watch.socket.bufferedAmount).toBe(0);
    watch.ask("r");
    expect(watch.socket.bufferedAmount).toBeGreaterThan(50);
    expect(watch.socket.readyState).toBe(ResilientWebSocket.OPEN);
  });

  it("sends what was asked while away, once it is back", async () => {
    const watch = await opened();
    server.cut();
    await watch.until(() => watch.states.at(-1) === "reconnecting");
    watch.ask("r");
    watch.socket.send('{"type":"other","requestId":"x"}');
    await watch.ended("r");
    expect(types(1)).toEqual(["send", "other"]);
    expect(watch.frames).toEqual(official("r", "answer-0"));
  });

  it("tells its states", async () => {
    const watch = await opened([{ cutAfter: 3 }, { cutOn: "resume" }]);
    watch.ask("r");
    await watch.ended("r");
    watch.socket.close();
    await watch.until(() => watch.close !== undefined);
    expect(watch.states).toEqual(["connecting", "open", "reconnecting", "open", "reconnecting", "open", "closed"]);
  });
});

describe("abort", () => {
  it("stops the run while connected", async () => {
    server.limit = 5;
    const watch = await opened();
    watch.ask("r");
    await watch.until(() => watch.frames.length === 6);
    watch.abort("r");
    expect((await watch.ended("r")).type).toBe("end");
    expect(types(0)).toEqual(["send", "abort"]);
  });

  it("while away is delivered after the reconnect, behind the resume", async () => {
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

  it("that was cut on its way is delivered again", async () => {
    server.limit = 5;
    const watch = await opened([{ cutOn: "abort" }]);
    watch.ask("r");
    await watch.until(() => watch.frames.length === 6);
    watch.abort("r");
    await watch.ended("r");
    expect([types(0), types(1)]).toEqual([["send", "abort"], ["resume", "abort"]]);
  });

  it("of a message whose fate is unknown sends and stops it", async () => {
    const watch = await opened([{ cutOn: "send" }]);
    watch.ask("r");
    await watch.until(() => watch.states.at(-1) === "reconnecting");
    watch.abort("r");
    await watch.ended("r");
    expect(types(1)).toEqual(["send", "abort"]);
  });

  it("of a message that left with the new connection stops it", async () => {
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

  it("of a message that never left takes it back", async () => {
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
