import type { UIMessageChunk } from "ai";

/** What the streams of a chat have been through since it was opened. */
export interface HealthReport {
  /** Milliseconds from a ping to its answer; null before the first one. */
  latency: number | null;
  /** How often a connection was lost and another one made. */
  reconnects: number;
  chunks: number;
  /** Answers whose rest the server no longer had. The transports see to it that no other chunk is missing. */
  lost: number;
}

/** Counts what arrives over the connections of a chat. */
export class StreamHealth {
  #report: HealthReport = { latency: null, reconnects: 0, chunks: 0, lost: 0 };
  readonly #watchers = new Set<() => void>();

  /** With `report`, for `useSyncExternalStore`. */
  readonly subscribe = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  };

  readonly report = (): HealthReport => this.#report;

  readonly noteLatency = (milliseconds: number): void => this.#change({ latency: Math.round(milliseconds) });

  /** Forget a latency that was measured over another kind of connection. */
  forgetLatency(): void {
    this.#change({ latency: null });
  }

  noteReconnect(): void {
    this.#change({ reconnects: this.#report.reconnects + 1 });
  }

  noteLost(): void {
    this.#change({ lost: this.#report.lost + 1 });
  }

  /** Return a stream that counts its chunks. It takes one at a time, so that the source notices how far it was read. */
  counting(stream: ReadableStream<UIMessageChunk>): ReadableStream<UIMessageChunk> {
    const reader = stream.getReader();
    return new ReadableStream<UIMessageChunk>({
      pull: async (controller) => {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        this.#change({ chunks: this.#report.chunks + 1 });
        controller.enqueue(value);
      },
      cancel: (reason) => reader.cancel(reason),
    }, { highWaterMark: 0 });
  }

  #change(change: Partial<HealthReport>): void {
    this.#report = { ...this.#report, ...change };
    for (const watcher of [...this.#watchers]) watcher();
  }
}
