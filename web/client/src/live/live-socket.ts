import type { ResilientWebSocketOptions } from "../socket/resilient-web-socket-options.js";
import { ResilientWebSocket } from "../socket/resilient-web-socket.js";
import { LIVE_PROTOCOL, type LiveFrame, readLiveFrame } from "./live-frames.js";
import { type MediaFrame, readMediaFrame } from "./media-frame.js";

/** The callbacks of a `LiveSocket`. */
export type LiveListener = {
  /** Handle a live frame; return false to have it read as a frame of a request. */
  frame(frame: LiveFrame): boolean;
  media(frame: MediaFrame): void;
};

/** A `ResilientWebSocket` that also knows the live frames and the binary frames. */
export class LiveSocket extends ResilientWebSocket {
  constructor(
    url: string,
    options: ResilientWebSocketOptions,
    private readonly listener: LiveListener,
  ) {
    super(url, [], options);
  }

  /** Resume this turn, which the server has begun, after a lost connection. */
  adopt(requestId: string, chat: string): void {
    this.requests.adopt(requestId, chat);
  }

  override post(data: string | ArrayBuffer): boolean {
    return super.post(data);
  }

  protected override get subprotocol(): string {
    return LIVE_PROTOCOL;
  }

  protected override handles(data: unknown): boolean {
    if (data instanceof ArrayBuffer) return this.handlesMedia(data);
    const frame = typeof data === "string" ? readLiveFrame(data) : undefined;
    return frame !== undefined && this.listener.frame(frame);
  }

  private handlesMedia(data: ArrayBuffer): boolean {
    const frame = readMediaFrame(data);
    if (frame) this.listener.media(frame);
    return frame !== undefined;
  }
}
