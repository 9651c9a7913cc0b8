import { beforeEach, describe, expect, it, vi } from "vitest";
import { ResilientWebSocket } from "../src/resilient-web-socket.js";
import { Page } from "./socket-page.js";
import { begun, official, opened, server, TIMERS, types, useScene } from "./socket-scene.js";
import { QUICK } from "./socket-watch.js";

useScene();

describe("close", () => {
  it("twice tells once, with the code given", async () => {
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

  it("while connecting opens nothing", async () => {
    const watch = begun();
    watch.socket.close();
    await watch.until(() => watch.close !== undefined);
    await server.until(() => server.sockets.size === 0);
    expect(watch.events).toEqual(["close"]);
  });

  it("while a token is fetched connects nowhere", async () => {
    let give: (token: string) => void = () => {};
    const watch = begun({ token: () => new Promise<string>((resolve) => (give = resolve)) });
    await Promise.resolve();
    watch.socket.close();
    give("t");
    await watch.until(() => watch.close !== undefined);
    await opened();
    expect(server.connections).toBe(1);
  });

  it("while away ends the attempts", async () => {
    const watch = await opened();
    server.cut();
    await watch.until(() => watch.states.at(-1) === "reconnecting");
    watch.socket.close();
    await watch.until(() => watch.close !== undefined);
    expect(watch.events).toEqual(["open", "close"]);
    expect(server.connections).toBe(1);
  });

  it("in mid-answer lets no late frame through", async () => {
    const watch = await opened();
    watch.ask("r");
    await watch.until(() => watch.frames.length === 3);
    watch.socket.close();
    await server.until(() => server.sockets.size === 0);
    expect(watch.frames.length).toBe(3);
    watch.ask("more");
    expect(types(0)).toEqual(["send"]);
  });

  it("and open in quick succession leave nothing behind", async () => {
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
    // The real socket waits for the end of the line, too.
    await vi.waitUntil(() => vi.getTimerCount() === 0);
  });
});

describe("in a page", () => {
  let page: Page;

  beforeEach(() => {
    page = new Page();
  });

  it("comes back at once when the network does", async () => {
    const watch = await opened([], { backoff: { initial: 1e9, max: 1e9 } });
    server.cut();
    await watch.until(() => watch.states.at(-1) === "reconnecting");
    page.dispatchEvent(new Event("online"));
    await watch.until(() => watch.socket.counters.reconnects === 1);
  });

  it("comes back at once when it is looked at again", async () => {
    const watch = await opened([], { backoff: { initial: 1e9, max: 1e9 } });
    server.cut();
    await watch.until(() => watch.states.at(-1) === "reconnecting");
    page.show(false);
    expect(server.connections).toBe(1);
    page.show(true);
    await watch.until(() => watch.socket.counters.reconnects === 1);
  });

  it("does not ping while nobody looks, and at once when somebody does", async () => {
    page.show(false);
    const watch = await opened([], { pingInterval: 1, silence: 1 });
    watch.ask("r");
    await watch.ended("r");
    expect(server.received.flat().map((frame) => frame.type)).toEqual(["send"]);
    page.show(true);
    await server.until(() => server.received.flat().some((frame) => frame.type === "ping"));
  });

  it("leaves no listener on it", async () => {
    const watch = await opened();
    expect(page.listeners).toBe(2);
    watch.socket.close();
    expect(page.listeners).toBe(0);
    server.faults = [{ close: { code: 1008 } }];
    const refused = begun();
    await refused.until(() => refused.close !== undefined);
    expect(page.listeners).toBe(0);
  });
});

describe("where there is no WebSocket", () => {
  it.runIf(typeof globalThis.WebSocket === "undefined")("it says what to do", () => {
    expect(() => new ResilientWebSocket(server.url)).toThrow("Give one as the option WebSocket");
  });

  it("an address that no socket takes ends it with the reason", async () => {
    const watch = begun({}, "nonsense:");
    await watch.until(() => watch.events.includes("error"));
    expect(watch.close?.reason).toContain("SyntaxError");
  });
});
