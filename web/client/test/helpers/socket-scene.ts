import { afterEach, beforeEach, vi } from "vitest";
import type { ResilientWebSocketOptions } from "../../src/socket/resilient-web-socket-options.js";
import { answer, type Fault, type Frame, ScriptedSocketServer } from "./scripted-socket-server.js";
import { SocketWatch } from "./socket-watch.js";

/** The timers that `vi.useFakeTimers` replaces; the network needs the others. */
export const TIMERS: ("setTimeout" | "clearTimeout" | "setInterval" | "clearInterval")[] = [
  "setTimeout",
  "clearTimeout",
  "setInterval",
  "clearInterval",
];

/** The server of the current test. */
export let server: ScriptedSocketServer;
const watches: SocketWatch[] = [];

/** Start a server for each test of the file that calls this: files of one worker share this module. */
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

/** Return an open socket to a server with these faults. */
export async function opened(faults: Fault[] = [], options: ResilientWebSocketOptions = {}): Promise<SocketWatch> {
  server.faults = faults;
  const watch = begun(options);
  await watch.until(() => watch.events.includes("open"));
  return watch;
}

/** Return a socket that is connecting. */
export function begun(options: ResilientWebSocketOptions = {}, url: string = server.url): SocketWatch {
  const watch = new SocketWatch(url, options);
  watches.push(watch);
  return watch;
}

/** Return the official frames of one request that is answered to the end. */
export function official(requestId: string, messageId: string): Frame[] {
  const chunks = answer(messageId, server.words).map((chunk, sequence) => ({ type: "chunk", requestId, sequence, chunk }));
  return [{ type: "start", requestId }, ...chunks, { type: "end", requestId }];
}

/** Return the types of the frames that came on one connection, without pings. */
export function types(connection: number): string[] {
  return (server.received[connection] ?? []).map((frame) => frame.type).filter((type) => type !== "ping");
}
