import type { UIMessageChunk } from "ai";

/** The chunks of one request on their way to a chat: a stream that is fed by the frames of the request. */
export class SocketChunkStream {
  readonly stream: ReadableStream<UIMessageChunk>;
  /** Resolves with the stream once the server has begun, and with null when no run is active. */
  readonly response: Promise<ReadableStream<UIMessageChunk> | null>;
  /** The run that the chunks belong to, once it is known. */
  run: string | undefined;
  private controller!: ReadableStreamDefaultController<UIMessageChunk>;
  private respond!: (stream: ReadableStream<UIMessageChunk> | null) => void;
  private refuse!: (error: Error) => void;

  /** `cancelled` is called when the chat cancels the stream, `failed` when the request fails. */
  constructor(
    readonly chatId: string,
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
    // The request of a sent message uses `stream` at once, so nothing else handles a rejection.
    this.response.catch(() => {});
  }

  /** The server has begun. */
  begin(): void {
    this.respond(this.stream);
  }

  /** A chunk has come. */
  chunk(chunk: UIMessageChunk): void {
    this.begin();
    if (chunk.type === "error") this.failed();
    this.controller.enqueue(chunk);
  }

  /** The last chunk has come. */
  end(): void {
    this.begin();
    this.controller.close();
  }

  /** No run is active. */
  endEmpty(): void {
    this.respond(null);
    this.controller.close();
  }

  /** The request has failed. */
  fail(error: Error): void {
    this.failed();
    this.refuse(error);
    this.controller.error(error);
  }
}
