import type { UIMessageChunk } from "ai";

/** One answer on its way: the stream that a chat reads, fed by the frames of its request. */
export class SocketAnswer {
  readonly stream: ReadableStream<UIMessageChunk>;
  /** The stream once the server has begun, null when nothing runs. */
  readonly response: Promise<ReadableStream<UIMessageChunk> | null>;
  private controller!: ReadableStreamDefaultController<UIMessageChunk>;
  private respond!: (stream: ReadableStream<UIMessageChunk> | null) => void;
  private refuse!: (error: Error) => void;

  constructor(
    cancelled: () => void,
    private readonly failed: () => void,
  ) {
    this.stream = new ReadableStream<UIMessageChunk>({
      start: (controller) => void (this.controller = controller),
      cancel: cancelled,
    });
    this.response = new Promise((resolve, reject) => {
      this.respond = resolve;
      this.refuse = reject;
    });
    // A sent message has its stream at once and nobody waits for the response.
    this.response.catch(() => {});
  }

  begin(): void {
    this.respond(this.stream);
  }

  chunk(chunk: UIMessageChunk): void {
    this.begin();
    if (chunk.type === "error") this.failed();
    this.controller.enqueue(chunk);
  }

  end(): void {
    this.begin();
    this.controller.close();
  }

  nothing(): void {
    this.respond(null);
    this.controller.close();
  }

  fail(error: Error): void {
    this.failed();
    this.refuse(error);
    this.controller.error(error);
  }
}
