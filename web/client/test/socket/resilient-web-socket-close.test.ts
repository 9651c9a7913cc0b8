import { beforeEach, describe, expect, it, vi } from "vitest";
import { ResilientWebSocket } from "../../src/socket/resilient-web-socket.js";
import { FakeWindow } from "../helpers/fake-window.js";
import { begun, official, opened, server, TIMERS, types, useScene } from "../helpers/socket-scene.js";
import { QUICK } from "../helpers/socket-watch.js";

useScene();

describe("close", () => {
  it("twice is one close event, with the given code", async () => {
    const watch = await opened();
    watch.socket.close(4001, "bye");
    watch.socket.close();
    expect(watch.socket.readyState).toBe(ResilientWebSocket.CLOSING);
    await watch.until(() => watch.close !== undefined);
    watch.socket.close();
    await server.until(() => server.sockets.size === 0);
    expect(watch.events).toEqual(["open", "close"]);
    expect(watch.close).toEqual({ code: 4001, reason: "bye" });
    expect(watch.socket.readyState).toBe(ResilientWebSocket.CLOSED);
  });

  it("while connecting prevents the connection", async () => {
    const watch = begun();
    watch.socket.close();
    await watch.until(() => watch.close !== undefined);
    await server.until(() => server.sockets.size === 0);
    expect(watch.events).toEqual(["close"]);
  });

  it("while the token is awaited prevents the connection", async () => {
    let give: (token: string) => void = () => {};
    const watch = begun({ token: () => new Promise<string>((resolve) => (give = resolve)) });
    await Promise.resolve();
    watch.socket.close();
    give("t");
    await watch.until(() => watch.close !== undefined);
    await opened();
    expect(server.connections).toBe(1);
  });

  it("while reconnecting ends the attempts", async () => {
    const watch = await opened();
    server.cut();
    await watch.until(() => watch.states.at(-1) === "reconnecting");
    watch.socket.close();
    await watch.until(() => watch.close !== undefined);
    expect(watch.events).toEqual(["open", "close"]);
    expect(server.connections).toBe(1);
  });

  it("in the middle of a message delivers no later frame", async () => {
    const watch = await opened();
    watch.ask("r");
    await watch.until(() => watch.frames.length === 3);
    watch.socket.close();
    await server.until(() => server.sockets.size === 0);
    expect(watch.frames.length).toBe(3);
    watch.ask("more");
    expect(types(0)).toEqual(["send"]);
  });

  it("and open in quick succession leave no socket open", async () => {
    for (let n = 0; n < 20; n += 1) {
      const watch = begun();
      if (n % 2) await watch.until(() => watch.events.includes("open"));
      watch.socket.close();
      await watch.until(() => watch.close !== undefined);
    }
    await server.until(() => server.sockets.size === 0);
    const watch = await opened();
    watch.ask("r");
    await watch.ended("r");
    expect(watch.frames).toEqual(official("r", "answer-0"));
  });

  it("with a code that only servers may use, as the official transport does, still closes", async () => {
    const watch = await opened();
    watch.socket.close(1011, "WebSocket chat transport error");
    await server.until(() => server.sockets.size === 0);
    expect(watch.close?.code).toBe(1011);
  });

  it("while connecting leaves no timer", async () => {
    vi.useFakeTimers({ toFake: TIMERS });
    const watch = begun();
    expect(vi.getTimerCount()).toBe(1);
    watch.socket.close();
    expect(vi.getTimerCount()).toBe(0);
  });

  it("leaves no timer", async () => {
    vi.useFakeTimers({ toFake: TIMERS });
    const watch = await opened([{ cutAfter: 2 }]);
    watch.ask("r");
    await watch.until(() => watch.states.at(-1) === "reconnecting");
    expect(vi.getTimerCount()).toBeGreaterThan(0);
    vi.advanceTimersByTime(QUICK.max);
    await watch.until(() => watch.socket.counters.reconnects === 1);
    watch.socket.close();
    await server.until(() => server.sockets.size === 0);
    // The real socket waits for its end, too.
    await vi.waitUntil(() => vi.getTimerCount() === 0);
  });
});

describe("in a page", () => {
  let window: FakeWindow;

  beforeEach(() => {
    window = new FakeWindow();
  });

  it("reconnects at once when the browser is online", async () => {
    const watch = await opened([], { backoff: { initial: 1e9, max: 1e9 } });
    server.cut();
    await watch.until(() => watch.states.at(-1) === "reconnecting");
    window.dispatchEvent(new Event("online"));
    await watch.until(() => watch.socket.counters.reconnects === 1);
  });

  it("reconnects at once when the page becomes visible", async () => {
    const watch = await opened([], { backoff: { initial: 1e9, max: 1e9 } });
    server.cut();
    await watch.until(() => watch.states.at(-1) === "reconnecting");
    window.show(false);
    expect(server.connections).toBe(1);
    window.show(true);
    await watch.until(() => watch.socket.counters.reconnects === 1);
  });

  it("does not ping while the page is hidden, and at once when it becomes visible", async () => {
    window.show(false);
    const watch = await opened([], { pingInterval: 1, silence: 1 });
    watch.ask("r");
    await watch.ended("r");
    expect(server.received.flat().map((frame) => frame.type)).toEqual(["send"]);
    window.show(true);
    await server.until(() => server.received.flat().some((frame) => frame.type === "ping"));
  });

  it("leaves no listener on the page", async () => {
    const watch = await opened();
    expect(window.listeners).toBe(2);
    watch.socket.close();
    expect(window.listeners).toBe(0);
    server.faults = [{ close: { code: 1008 } }];
    const refused = begun();
    await refused.until(() => refused.close !== undefined);
    expect(window.listeners).toBe(0);
  });
});

describe("without a WebSocket", () => {
  it.runIf(typeof globalThis.WebSocket === "undefined")("the error says what to do", () => {
    expect(() => new ResilientWebSocket(server.url)).toThrow("Give one as the option WebSocket");
  });

  it("an invalid address ends the socket with the reason", async () => {
    const watch = begun({}, "nonsense:");
    await watch.until(() => watch.events.includes("error"));
    expect(watch.close?.reason).toContain("SyntaxError");
  });
});
