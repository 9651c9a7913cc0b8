/** What a binary frame carries. */
export type MediaKind = "pcm" | "image/jpeg" | "image/png";

/** A binary frame: 8 bytes in front (kind, flags, generation, position), then sound or a picture. */
export type MediaFrame = {
  kind: MediaKind;
  /** Sound of older generations is void. */
  generation: number;
  /** Milliseconds since the sound began. */
  position: number;
  /** Nothing more comes in this turn. */
  last: boolean;
  payload: Uint8Array<ArrayBuffer>;
};

const HEADER = 8;
const LAST = 1;
const KINDS: readonly (MediaKind | undefined)[] = [undefined, "pcm", "image/jpeg", "image/png"];

/** Write a frame. */
export function packMediaFrame({ kind, generation, position, last, payload }: MediaFrame): ArrayBuffer {
  const frame = new Uint8Array(HEADER + payload.byteLength);
  const header = new DataView(frame.buffer);
  header.setUint8(0, KINDS.indexOf(kind));
  header.setUint8(1, last ? LAST : 0);
  header.setUint16(2, generation, true);
  header.setUint32(4, position, true);
  frame.set(payload, HEADER);
  return frame.buffer;
}

/** Read a frame; undefined for one that is none of ours. */
export function readMediaFrame(data: ArrayBuffer): MediaFrame | undefined {
  if (data.byteLength < HEADER) return undefined;
  const header = new DataView(data);
  const kind = KINDS[header.getUint8(0)];
  if (kind === undefined) return undefined;
  return {
    kind,
    last: (header.getUint8(1) & LAST) !== 0,
    generation: header.getUint16(2, true),
    position: header.getUint32(4, true),
    payload: new Uint8Array(data, HEADER),
  };
}

/** Sound as samples. An odd byte at the end is no sample. */
export function samplesOf({ payload }: MediaFrame): Int16Array<ArrayBuffer> {
  // The payload begins at byte 8: samples can be read where they are.
  return new Int16Array(payload.buffer, payload.byteOffset, payload.byteLength >> 1);
}
