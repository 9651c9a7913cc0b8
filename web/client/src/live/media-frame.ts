/** The content of a binary frame. */
export type MediaKind = "pcm" | "image/jpeg" | "image/png";

/** A binary frame: a header of 8 bytes (kind, flags, generation, position), then audio or an image. */
export type MediaFrame = {
  kind: MediaKind;
  /** Raised by every interruption: audio of an older generation is not played. */
  generation: number;
  /** Milliseconds since the audio began. */
  position: number;
  /** True for the last audio of a turn. */
  last: boolean;
  payload: Uint8Array<ArrayBuffer>;
};

/** Bytes of the header. */
const HEADER = 8;
/** The flag of the last audio of a turn. */
const LAST = 1;
/** The kinds by their number in the header. */
const KINDS: readonly (MediaKind | undefined)[] = [undefined, "pcm", "image/jpeg", "image/png"];
/** Number of generations, since they have 16 bits: after the last one they begin at 0 again. */
const GENERATIONS = 0x1_0000;

/** Write a binary frame. */
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

/** Read a binary frame; undefined for one of an unknown kind. */
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

/** Return the audio of a frame as samples, without copying. An odd byte at the end is left out. */
export function samplesOf({ payload }: MediaFrame): Int16Array<ArrayBuffer> {
  // The header has an even length, so the samples are aligned.
  return new Int16Array(payload.buffer, payload.byteOffset, payload.byteLength >> 1);
}

/** Return the generation after this one. */
export function nextGeneration(generation: number): number {
  return (generation + 1) % GENERATIONS;
}

/** Return true when a generation is older than another one that is at most half of all generations away. */
export function isOlder(generation: number, other: number): boolean {
  return (generation - other + GENERATIONS) % GENERATIONS >= GENERATIONS / 2;
}
