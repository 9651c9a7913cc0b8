import type { UIMessageChunk } from "ai";
import { streamOf } from "../common/stream-of.js";

type Item = UIMessageChunk | (() => void);

/**
 * The chunks of one request or turn on their way to a chat. The chat pulls them one by one, so that a task between two
 * of them runs when the chat has processed the first and has not begun the second.
 */
export class LiveChunkStream {
  readonly stream: ReadableStream<UIMessageChunk>;
  /** Resolves with the stream once the server has begun, and with null when no run is active. */
  readonly response: Promise<ReadableStream<UIMessageChunk> | null>;
  /** Resolves when the chat has read everything or has cancelled the stream. */
  readonly drained: Promise<void>;
  /** The id of the message that is written, once it is known. */
  messageId = "";
  /** The run that the chunks belong to, once it is known. */
  run: string | undefined;
  /** True once the server has begun. A request to resume may find no run. */
  hasBegun = false;
  /** True once a step has begun. A stream that continues a message begins in the middle of a step. */
  hasStep = false;
  /** True once the last chunk has come. */
  hasEnded = false;
  private readonly items: Item[] = [];
  private afterText: (() => void)[] = [];
  private error: Error | undefined;
  private wake = (): void => {};
  private respond!: (stream: ReadableStream<UIMessageChunk> | null) => void;
  private refuse!: (error: Error) => void;
  private finish!: () => void;

  /** `cancelled` is called when the chat cancels the stream, `failed` when the request fails. */
  constructor(
    cancelled: () => void,
    private readonly failed: () => void = () => {},
  ) {
    this.drained = new Promise((resolve) => (this.finish = resolve));
    this.response = new Promise((resolve, reject) => {
      this.respond = resolve;
      this.refuse = reject;
    });
    // The request of a sent message uses `stream` at once, so nothing else handles a rejection.
    this.response.catch(() => {});
    this.stream = streamOf(this.chunks(), () => {
      this.close();
      this.finish();
      cancelled();
    });
  }

  /** The server has begun. */
  begin(): void {
    this.hasBegun = true;
    this.respond(this.stream);
  }

  /** A chunk has come. */
  chunk(chunk: UIMessageChunk): void {
    this.begin();
    if (chunk.type === "start") this.messageId = chunk.messageId ?? this.messageId;
    if (chunk.type === "start-step") this.hasStep = true;
    if (chunk.type === "error") this.failed();
    this.put(chunk);
    if (chunk.type === "text-end") this.afterText.splice(0).forEach((task) => this.put(task));
  }

  /** Run a task when the chat has read the chunks that have come so far. */
  whenRead(task: () => void): void {
    this.put(task);
  }

  /** Run a task when the chat has read the current text to its end. Its chunks may still be on their way. */
  whenTextEnded(task: () => void): void {
    this.afterText.push(task);
  }

  /** The last chunk has come. */
  end(): void {
    this.begin();
    this.close();
  }

  /** No run is active. */
  endEmpty(): void {
    this.respond(null);
    this.close();
    this.finish();
  }

  /** The request has failed. The chat gets the chunks before the error. */
  fail(error: Error): void {
    this.failed();
    this.refuse(error);
    this.error = error;
    this.close();
    this.finish();
  }

  /**
   * End the stream because the page has closed the transport. It ends with an AbortError, which a chat does not report:
   * after a normal end the chat might send the answers to its calls by itself.
   */
  abandon(): void {
    this.respond(null);
    this.fail(new DOMException("The transport was closed.", "AbortError"));
  }

  private put(item: Item): void {
    this.items.push(item);
    this.wake();
  }

  private close(): void {
    this.afterText.splice(0).forEach((task) => this.put(task));
    this.hasEnded = true;
    this.wake();
  }

  private async *chunks(): AsyncGenerator<UIMessageChunk, void, void> {
    try {
      while (this.items.length > 0 || !this.hasEnded) {
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
