import type { UIMessageChunk } from "ai";
import { streamOf } from "./stream-of.js";

type Item = UIMessageChunk | (() => void);

/**
 * One answer on its way to a chat, which asks for its chunks one by one. So what is to happen between two of them happens
 * when the chat has worked through the first and not begun the second.
 */
export class LiveAnswer {
  readonly stream: ReadableStream<UIMessageChunk>;
  /** The stream once the server has begun, null when nothing runs. */
  readonly response: Promise<ReadableStream<UIMessageChunk> | null>;
  /** When the chat has read it all, or does not want to. */
  readonly drained: Promise<void>;
  /** The message that is written, once that is known. */
  messageId = "";
  /** Whether a chat reads it. One that is only looked for may not be there. */
  hasBegun = false;
  /** Whether a step has begun in it. An answer that goes on with a message begins in the midst of one. */
  hasStep = false;
  /** Whether the server has said all. */
  isOver = false;
  private readonly items: Item[] = [];
  private behindText: (() => void)[] = [];
  private error: Error | undefined;
  private wake = (): void => {};
  private respond!: (stream: ReadableStream<UIMessageChunk> | null) => void;
  private refuse!: (error: Error) => void;
  private finish!: () => void;

  /** `cancelled` hears that the chat does not want the rest, `failed` that there is none. */
  constructor(
    cancelled: () => void,
    private readonly failed: () => void = () => {},
  ) {
    this.drained = new Promise((resolve) => (this.finish = resolve));
    this.response = new Promise((resolve, reject) => {
      this.respond = resolve;
      this.refuse = reject;
    });
    // A sent message has its stream at once and nobody waits for the response.
    this.response.catch(() => {});
    this.stream = streamOf(this.chunks(), () => {
      this.close();
      this.finish();
      cancelled();
    });
  }

  begin(): void {
    this.hasBegun = true;
    this.respond(this.stream);
  }

  chunk(chunk: UIMessageChunk): void {
    this.begin();
    if (chunk.type === "start") this.messageId = chunk.messageId ?? this.messageId;
    if (chunk.type === "start-step") this.hasStep = true;
    if (chunk.type === "error") this.failed();
    this.put(chunk);
    if (chunk.type === "text-end") this.behindText.splice(0).forEach((task) => this.put(task));
  }

  /** Do something when the chat has what has come so far. */
  whenRead(task: () => void): void {
    this.put(task);
  }

  /** Do something when the chat has the text that the server is writing now, which may not even have begun here. */
  whenTextEnded(task: () => void): void {
    this.behindText.push(task);
  }

  end(): void {
    this.begin();
    this.close();
  }

  nothing(): void {
    this.respond(null);
    this.close();
    this.finish();
  }

  fail(error: Error): void {
    this.failed();
    this.refuse(error);
    this.error = error;
    this.close();
    this.finish();
  }

  /** Nobody reads on, on purpose. What has come stays as it is; behind a mere end the chat might send by itself. */
  leave(): void {
    this.respond(null);
    this.fail(new DOMException("The transport was closed.", "AbortError"));
  }

  private put(item: Item): void {
    this.items.push(item);
    this.wake();
  }

  private close(): void {
    this.behindText.splice(0).forEach((task) => this.put(task));
    this.isOver = true;
    this.wake();
  }

  private async *chunks(): AsyncGenerator<UIMessageChunk, void, void> {
    try {
      while (this.items.length > 0 || !this.isOver) {
        const item = this.items.shift();
        if (typeof item === "function") item();
        else if (item !== undefined) yield item;
        else await new Promise<void>((resolve) => (this.wake = resolve));
      }
      if (this.error) throw this.error;
    } finally {
      this.finish();
    }
  }
}
