import { afterEach, beforeEach, vi } from "vitest";
import type { ResilientWebSocketOptions } from "../src/resilient-web-socket.js";
import { answer, type Fault, type Frame, ScriptedSocketServer } from "./scripted-socket-server.js";
import { SocketWatch } from "./socket-watch.js";

/** What `vi.useFakeTimers` is to take over; the network needs the rest. */
export const TIMERS: ("setTimeout" | "clearTimeout" | "setInterval" | "clearInterval")[] = [
  "setTimeout",
  "clearTimeout",
  "setInterval",
  "clearInterval",
];

/** The server of the test that runs. */
export let server: ScriptedSocketServer;
const watches: SocketWatch[] = [];

/** A server for each test of the file that calls this: files share what they import. */
export function useScene(): void {
  beforeEach(async () => {
    server = await ScriptedSocketServer.start();
  });

  afterEach(async () => {
    vi.useRealTimers();
    for (const watch of watches.splice(0)) watch.socket.close();
    vi.unstubAllGlobals();
    await server.stop();
  });
}

/** An open socket, on a server that has these faults in store. */
export async function opened(faults: Fault[] = [], options: ResilientWebSocketOptions = {}): Promise<SocketWatch> {
  server.faults = faults;
  const watch = begun(options);
  await watch.until(() => watch.events.includes("open"));
  return watch;
}

/** A socket that has just been made. */
export function begun(options: ResilientWebSocketOptions = {}, url: string = server.url): SocketWatch {
  const watch = new SocketWatch(url, options);
  watches.push(watch);
  return watch;
}

/** What the official transport may see of one answered request. */
export function official(requestId: string, messageId: string): Frame[] {
  const chunks = answer(messageId, server.words).map((chunk, sequence) => ({ type: "chunk", requestId, sequence, chunk }));
  return [{ type: "start", requestId }, ...chunks, { type: "end", requestId }];
}

/** The types of what came on one connection, pings left out. */
export function types(connection: number): string[] {
  return (server.received[connection] ?? []).map((frame) => frame.type).filter((type) => type !== "ping");
}
