import { EventEmitter, once } from "node:events";
import { WebSocket } from "ws";
import type { ResilientWebSocketOptions } from "../../src/socket/resilient-web-socket-options.js";
import { ResilientWebSocket } from "../../src/socket/resilient-web-socket.js";
import type { Frame } from "./scripted-socket-server.js";

export const QUICK = { initial: 1, max: 4 };

/** A `ResilientWebSocket`, and everything that it reports. */
export class SocketWatch {
  readonly frames: Frame[] = [];
  readonly events: string[] = [];
  readonly states: string[] = [];
  readonly notices: string[] = [];
  readonly errors: string[] = [];
  close: { code: number; reason: string } | undefined;
  readonly socket: ResilientWebSocket;
  private readonly happened = new EventEmitter().setMaxListeners(0);

  constructor(url: string, options: ResilientWebSocketOptions = {}) {
    this.socket = new ResilientWebSocket(url, [], {
      WebSocket,
      backoff: QUICK,
      onState: (state) => this.note(() => this.states.push(state)),
      onNotice: (notice) => this.note(() => this.notices.push(notice.code)),
      ...options,
    });
    this.socket.onopen = () => this.note(() => this.events.push("open"));
    this.socket.onmessage = ({ data }) => this.note(() => this.frames.push(JSON.parse(String(data)) as Frame));
    this.socket.onerror = (event) => this.note(() => this.erred(event as ErrorEvent));
    this.socket.onclose = (event) => this.note(() => this.closed(event as CloseEvent));
  }

  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await once(this.happened, "something");
  }

  ask(requestId: string, chat = "c", type = "send"): void {
    const messages = [{ id: `question-${requestId}`, role: "user", parts: [] }];
    const content = type === "send" ? { messages, trigger: "submit-message" } : {};
    const body = { client: "ai/7.0.169", more: "x".repeat(100) };
    this.socket.send(JSON.stringify({ type, requestId, id: chat, headers: {}, body, ...content }));
  }

  abort(requestId: string): void {
    this.socket.send(JSON.stringify({ type: "abort", requestId }));
  }

  of(requestId: string): Frame[] {
    return this.frames.filter((frame) => frame.requestId === requestId);
  }

  /** Wait for the last frame of a request. */
  async ended(requestId: string): Promise<Frame> {
    const last = (): Frame | undefined => this.of(requestId).at(-1);
    await this.until(() => ["end", "error", "no-active"].includes(last()?.type ?? ""));
    return last() as Frame;
  }

  private erred(event: ErrorEvent): void {
    this.events.push("error");
    this.errors.push(event.message);
  }

  private closed({ code, reason }: CloseEvent): void {
    this.events.push("close");
    this.close = { code, reason };
  }

  private note(happening: () => unknown): void {
    happening();
    this.happened.emit("something");
  }
}
