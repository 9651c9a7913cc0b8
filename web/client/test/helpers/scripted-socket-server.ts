import { EventEmitter, once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";

export type Chunk = { type: string; [key: string]: unknown };
export type Frame = { type: string; requestId: string; [key: string]: unknown };

/** A fault of one connection. Connections take the faults in order; later ones have none. */
export type Fault = {
  /** Cut the connection after so many frames. */
  cutAfter?: number;
  /** Cut the connection at the first frame of this type that comes. */
  cutOn?: string;
  /** Close with this code after so many frames, or at once. */
  close?: { code: number; reason?: string; after?: number };
  /** Send nothing, not even a pong. */
  silent?: boolean;
  /** Write every frame twice. */
  twice?: boolean;
  /** Leave out the chunk with this sequence. */
  without?: number;
  /** Sent before every frame. */
  noise?: (string | Buffer)[];
  /** Answer the handshake with this status; with 0, never. */
  status?: number;
  /** Answer every request with this error. */
  refusal?: { errorText?: string; code?: string };
};

export type Run = { id: string; chunks: Chunk[]; written: number; stopped: boolean };

/** The refusal of a run that is no longer kept. */
export const FORGOTTEN: NonNullable<Fault["refusal"]> = { errorText: "gone", code: "not-recovered" };

/** Return the chunks of a run with so many words. */
export function answer(messageId: string, words: number): Chunk[] {
  const deltas = Array.from({ length: words }, (_, n) => ({ type: "text-delta", id: "t", delta: `word${n} ` }));
  const opening = [{ type: "start", messageId }, { type: "start-step" }, { type: "text-start", id: "t" }];
  return [...opening, ...deltas, { type: "text-end", id: "t" }, { type: "finish-step" }, { type: "finish" }];
}

/** A server with the frames of `/api/chat/ws` that fails on command. A run writes one chunk in each turn of the event loop. */
export class ScriptedSocketServer {
  faults: Fault[] = [];
  words = 12;
  /** Runs write no further than this chunk until the limit is raised. */
  limit: number = Number.POSITIVE_INFINITY;
  readonly received: Frame[][] = [];
  readonly protocols: string[][] = [];
  readonly paths: string[] = [];
  readonly runs: Map<string, Run> = new Map();
  readonly sockets: Set<WebSocket> = new Set();
  private readonly happened = new EventEmitter().setMaxListeners(0);
  private readonly lines = new Set<Socket>();
  private readonly http: Server = createServer();
  private readonly upgrades = new WebSocketServer({ noServer: true, handleProtocols: (names) => [...names][0] ?? false });

  static async start(): Promise<ScriptedSocketServer> {
    const server = new ScriptedSocketServer();
    server.http.on("connection", (line) => server.lines.add(line));
    server.http.on("upgrade", (request, line, head) => server.upgrade(request, line, head));
    server.http.listen(0, "127.0.0.1");
    await once(server.http, "listening");
    return server;
  }

  get url(): string {
    return `ws://127.0.0.1:${(this.http.address() as AddressInfo).port}/api/chat/ws`;
  }

  get connections(): number {
    return this.received.length;
  }

  /** The frames that came on all connections, without pings. */
  get frames(): Frame[] {
    return this.received.flat().filter((frame) => frame.type !== "ping");
  }

  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await once(this.happened, "something");
  }

  allow(limit: number): void {
    this.limit = limit;
    this.tell();
  }

  cut(): void {
    for (const socket of this.sockets) socket.terminate();
  }

  async stop(): Promise<void> {
    this.allow(Number.POSITIVE_INFINITY);
    for (const line of this.lines) line.destroy();
    this.http.close();
    await once(this.http, "close");
  }

  private tell(): void {
    this.happened.emit("something");
  }

  private upgrade(request: IncomingMessage, line: Duplex, head: Buffer): void {
    const fault = this.faults.shift() ?? {};
    this.received.push([]);
    this.paths.push(request.url ?? "");
    this.protocols.push((request.headers["sec-websocket-protocol"] ?? "").split(/, */));
    this.tell();
    if (fault.status === 0) return;
    if (fault.status) return void line.end(`HTTP/1.1 ${fault.status} No\r\nConnection: close\r\n\r\n`);
    this.upgrades.handleUpgrade(request, line, head, (socket) => this.accept(socket, fault, this.connections - 1));
  }

  private accept(socket: WebSocket, fault: Fault, number: number): void {
    const talk = new Talk(socket, fault);
    this.sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => this.sockets.delete(socket) && this.tell());
    socket.on("message", (data) => {
      const frame = JSON.parse(String(data)) as Frame;
      this.received[number]?.push(frame);
      this.tell();
      if (fault.cutOn === frame.type) socket.terminate();
      else void this.serve(talk, frame);
    });
    if (fault.close && !fault.close.after) socket.close(fault.close.code, fault.close.reason);
    this.tell();
  }

  private async serve(talk: Talk, frame: Frame): Promise<void> {
    if (frame.type === "ping") return talk.pong(frame);
    if (frame.type === "abort") return this.abort(talk, frame.requestId);
    const run = talk.fault.refusal ? undefined : frame.type === "send" ? this.begin(frame) : this.find(frame);
    const refusal = talk.fault.refusal ?? (run === "gone" ? FORGOTTEN : undefined);
    if (refusal) return talk.write({ type: "error", requestId: frame.requestId, ...refusal });
    if (run === undefined || run === "gone") return talk.write({ type: "no-active", requestId: frame.requestId });
    talk.following.set(frame.requestId, run);
    await this.follow(talk, run, frame);
  }

  private begin(frame: Frame): Run {
    const message = (frame["messages"] as { id: string }[]).at(-1);
    const key = `${String(frame["id"])}/${message?.id}`;
    const run = this.runs.get(key) ?? this.newRun(`answer-${this.runs.size}`);
    this.runs.set(key, run);
    return run;
  }

  private newRun(id: string): Run {
    return { id, chunks: answer(id, this.words), written: 0, stopped: false };
  }

  private find(frame: Frame): Run | "gone" | undefined {
    const runs = [...this.runs.entries()].filter(([key]) => key.startsWith(`${String(frame["id"])}/`));
    const after = frame["after"];
    if (typeof after !== "string") return runs.map(([, run]) => run).find((run) => !isOver(run));
    return runs.map(([, run]) => run).find((run) => run.id === after.split(":")[0]) ?? "gone";
  }

  private abort(talk: Talk, requestId: string): void {
    const run = talk.following.get(requestId);
    if (run) run.stopped = true;
    this.tell();
  }

  private async follow(talk: Talk, run: Run, { requestId, lastSequence, after }: Frame): Promise<void> {
    talk.write({ type: "start", requestId });
    let sequence = typeof lastSequence === "number" ? lastSequence : -1;
    for (let n = place(after) + 1; n < run.chunks.length; n += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      if (n >= run.written) await this.until(() => run.stopped || n < this.limit);
      if (run.stopped && n >= run.written) break;
      run.written = Math.max(run.written, n + 1);
      sequence += 1;
      this.tell();
      if (sequence === talk.fault.without) continue;
      talk.write({ type: "chunk", requestId, sequence, chunk: run.chunks[n], id: `${run.id}:${n}` });
    }
    talk.write({ type: "end", requestId });
    this.tell();
  }
}

/** The server's side of one connection. */
class Talk {
  readonly following: Map<string, Run> = new Map();
  private written = 0;

  constructor(
    private readonly socket: WebSocket,
    readonly fault: Fault,
  ) {}

  pong({ timestamp }: Frame): void {
    if (!this.fault.silent) this.socket.send(JSON.stringify({ type: "pong", timestamp, serverTime: 0 }));
  }

  write(frame: object): void {
    if (this.fault.silent || this.socket.readyState !== this.socket.OPEN) return;
    if (this.written === this.fault.cutAfter) return this.socket.terminate();
    if (this.fault.close && this.written === this.fault.close.after) {
      return this.socket.close(this.fault.close.code, this.fault.close.reason);
    }
    this.written += 1;
    for (const noise of this.fault.noise ?? []) this.socket.send(noise);
    for (let times = this.fault.twice ? 2 : 1; times > 0; times -= 1) this.socket.send(JSON.stringify(frame));
  }
}

function isOver(run: Run): boolean {
  return run.stopped || run.written === run.chunks.length;
}

function place(after: unknown): number {
  return typeof after === "string" ? Number(after.split(":")[1]) : -1;
}
