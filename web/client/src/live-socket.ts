import { LIVE_PROTOCOL, type LiveFrame, readLiveFrame } from "./live-frames.js";
import { type MediaFrame, readMediaFrame } from "./media-frame.js";
import { ResilientWebSocket } from "./resilient-web-socket.js";
import type { ResilientWebSocketOptions } from "./socket-options.js";

export type LiveListener = {
  /** Whether a frame was for it. */
  frame(frame: LiveFrame): boolean;
  media(frame: MediaFrame): void;
};

/** A socket that comes back by itself, and knows the frames of voice. */
export class LiveSocket extends ResilientWebSocket {
  constructor(
    url: string,
    options: ResilientWebSocketOptions,
    private readonly listener: LiveListener,
  ) {
    super(url, [], options);
  }

  /** Take up an answer that the server has begun after a drop, too. */
  adopt(requestId: string, chat: string): void {
    this.requests.adopt(requestId, chat);
  }

  override post(data: string | ArrayBuffer): boolean {
    return super.post(data);
  }

  protected override get language(): string {
    return LIVE_PROTOCOL;
  }

  protected override takes(data: unknown): boolean {
    if (data instanceof ArrayBuffer) return this.takesMedia(data);
    const frame = typeof data === "string" ? readLiveFrame(data) : undefined;
    return frame !== undefined && this.listener.frame(frame);
  }

  private takesMedia(data: ArrayBuffer): boolean {
    const frame = readMediaFrame(data);
    if (frame) this.listener.media(frame);
    return frame !== undefined;
  }
}
