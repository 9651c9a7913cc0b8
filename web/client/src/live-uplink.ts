import { liveFrame } from "./live-frames.js";
import { type MediaFrame, packMediaFrame } from "./media-frame.js";

/** Sound of the microphone: 16 kHz, one channel, 16 bits, little-endian. */
export type AudioInput = Int16Array | Uint8Array | ArrayBuffer;

/** A picture of the camera or the screen. */
export type VideoFrame = Blob | { data: Uint8Array | ArrayBuffer; mediaType: "image/jpeg" | "image/png" };

/** What did not reach the server, since it would have come too late. */
export type LiveDropped = { audio: number; video: number };

const BYTES_PER_MS = 32;
/** A quarter of a second: well below what the server takes in one frame. */
const PIECE = 250 * BYTES_PER_MS;

/** The way up for sound and pictures. Nothing of it waits: what cannot leave now is dropped, and counted. */
export class LiveUplink {
  readonly dropped: LiveDropped = { audio: 0, video: 0 };
  private source: "ptt" | "vad" | undefined;
  /** What the server has not heard of, since the connection was away. */
  private unsaid: string | undefined;
  private bytes = 0;

  /** `post` says whether a frame has left. */
  constructor(private readonly post: (frame: string | ArrayBuffer) => boolean) {}

  start(source: "ptt" | "vad"): void {
    this.source = source;
    this.bytes = 0;
    this.control("start", source);
  }

  stop(): void {
    const { source } = this;
    this.source = undefined;
    if (source !== undefined) this.control("stop", source);
  }

  /** A new connection: whoever is speaking still is, and who has stopped has stopped. */
  connected(): void {
    if (this.source !== undefined) this.control("start", this.source);
    else if (this.unsaid !== undefined && this.post(this.unsaid)) this.unsaid = undefined;
  }

  audio(chunk: AudioInput): boolean {
    const bytes = bytesOf(chunk);
    let hasLeft = true;
    for (let at = 0; at < bytes.byteLength; at += PIECE) hasLeft = this.piece(bytes.subarray(at, at + PIECE)) && hasLeft;
    if (!hasLeft) this.dropped.audio += 1;
    return hasLeft;
  }

  async video(frame: VideoFrame): Promise<boolean> {
    const { data, mediaType } = await pictureOf(frame);
    const hasLeft = this.media({ kind: mediaType, position: 0, payload: bytesOf(data) });
    if (!hasLeft) this.dropped.video += 1;
    return hasLeft;
  }

  private control(action: "start" | "stop", source: "ptt" | "vad"): void {
    const frame = liveFrame("audio_control", { action, source });
    this.unsaid = this.post(frame) ? undefined : frame;
  }

  private piece(payload: Uint8Array<ArrayBuffer>): boolean {
    const position = Math.floor(this.bytes / BYTES_PER_MS);
    this.bytes += payload.byteLength;
    return this.media({ kind: "pcm", position, payload });
  }

  private media(frame: Pick<MediaFrame, "kind" | "position" | "payload">): boolean {
    return this.post(packMediaFrame({ ...frame, generation: 0, last: false }));
  }
}

function bytesOf(data: AudioInput): Uint8Array<ArrayBuffer> {
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  return new Uint8Array(data.buffer as ArrayBuffer, data.byteOffset, data.byteLength);
}

async function pictureOf(frame: VideoFrame): Promise<Exclude<VideoFrame, Blob>> {
  if (!(frame instanceof Blob)) return checked(frame);
  return checked({ data: await frame.arrayBuffer(), mediaType: frame.type as "image/jpeg" });
}

function checked<T extends { mediaType: string }>(frame: T): T {
  if (["image/jpeg", "image/png"].includes(frame.mediaType)) return frame;
  throw new TypeError(`A video frame is a JPEG or a PNG, not ${frame.mediaType || "of an unknown type"}.`);
}
