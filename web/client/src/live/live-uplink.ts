import { liveFrame } from "./live-frames.js";
import { type MediaFrame, packMediaFrame } from "./media-frame.js";

/** Audio of the microphone: 16 kHz, one channel, 16 bits, little-endian. */
export type AudioInput = Int16Array | Uint8Array | ArrayBuffer;

/** A picture of the camera or the screen. */
export type VideoFrame = Blob | { data: Uint8Array | ArrayBuffer; mediaType: "image/jpeg" | "image/png" };

/** Audio chunks and pictures that were not sent because there was no connection. */
export type LiveDropped = { audio: number; video: number };

/** Bytes in a millisecond of the microphone's audio. */
const BYTES_PER_MS = 32;
/** Bytes of audio in one frame: a quarter of a second, well below the server's limit. */
const MAX_FRAME = 250 * BYTES_PER_MS;

/** The sender of microphone audio and pictures. Nothing waits: what cannot be sent now is dropped and counted. */
export class LiveUplink {
  readonly dropped: LiveDropped = { audio: 0, video: 0 };
  /** How the user is speaking; undefined when the user is silent. */
  private source: "ptt" | "vad" | undefined;
  /** The last `audio_control` frame, if it could not be sent. */
  private unsent: string | undefined;
  /** Bytes of audio since the user began to speak. */
  private bytes = 0;

  /** `post` sends a frame and returns false when there is no connection. */
  constructor(private readonly post: (frame: string | ArrayBuffer) => boolean) {}

  /** The user begins to speak. */
  start(source: "ptt" | "vad"): void {
    this.source = source;
    this.bytes = 0;
    this.control("start", source);
  }

  /** The user has stopped speaking. */
  stop(): void {
    const { source } = this;
    this.source = undefined;
    if (source !== undefined) this.control("stop", source);
  }

  /** A connection has opened: tell the server whether the user is speaking. */
  connected(): void {
    if (this.source !== undefined) this.control("start", this.source);
    else if (this.unsent !== undefined && this.post(this.unsent)) this.unsent = undefined;
  }

  /** Send audio of the microphone; return false when some of it was dropped. */
  audio(chunk: AudioInput): boolean {
    const bytes = bytesOf(chunk);
    let isSent = true;
    for (let start = 0; start < bytes.byteLength; start += MAX_FRAME) {
      isSent = this.audioFrame(bytes.subarray(start, start + MAX_FRAME)) && isSent;
    }
    if (!isSent) this.dropped.audio += 1;
    return isSent;
  }

  /** Send a picture; resolve with false when it was dropped. */
  async video(frame: VideoFrame): Promise<boolean> {
    const { data, mediaType } = await pictureOf(frame);
    const isSent = this.media({ kind: mediaType, position: 0, payload: bytesOf(data) });
    if (!isSent) this.dropped.video += 1;
    return isSent;
  }

  private control(action: "start" | "stop", source: "ptt" | "vad"): void {
    const frame = liveFrame("audio_control", { action, source });
    this.unsent = this.post(frame) ? undefined : frame;
  }

  private audioFrame(payload: Uint8Array<ArrayBuffer>): boolean {
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
