import { describe, expect, test } from "vitest";
import { isOlder, nextGeneration, packMediaFrame, readMediaFrame, samplesOf } from "../../src/live/media-frame.js";

function bytes(...values: number[]): Uint8Array<ArrayBuffer> {
  return new Uint8Array(values);
}

describe("a binary frame", () => {
  test.each([
    ["pcm", false, 1, 0, [1, 0, 1, 0, 0, 0, 0, 0]],
    ["pcm", true, 0x1234, 0x0a0b0c0d, [1, 1, 0x34, 0x12, 0x0d, 0x0c, 0x0b, 0x0a]],
    ["image/jpeg", false, 0, 0, [2, 0, 0, 0, 0, 0, 0, 0]],
    ["image/png", false, 65_535, 4_294_967_295, [3, 0, 255, 255, 255, 255, 255, 255]],
  ] as const)("of %s, last %s, generation %i, at %i ms", (kind, last, generation, position, header) => {
    const frame = { kind, last, generation, position, payload: bytes(7, 8, 9) };
    const packed = packMediaFrame(frame);
    expect([...new Uint8Array(packed)]).toEqual([...header, 7, 8, 9]);
    expect(readMediaFrame(packed)).toEqual(frame);
  });

  test.each([[[]], [[1, 0, 0, 0, 0, 0, 0]], [[0, 0, 0, 0, 0, 0, 0, 0]], [[4, 0, 0, 0, 0, 0, 0, 0, 1]], [[255, 0, 0, 0, 0, 0, 0, 0]]])(
    "%j is none", (data) => expect(readMediaFrame(bytes(...data).buffer)).toBeUndefined(),
  );

  test.each([
    [[], []],
    [[0, 0, 255, 127, 0, 128, 255, 255], [0, 32_767, -32_768, -1]],
    [[1, 0, 9], [1]],
  ])("the samples in %j", (payload, samples) => {
    const frame = { kind: "pcm", last: false, generation: 0, position: 0, payload: bytes(...payload) } as const;
    const read = readMediaFrame(packMediaFrame(frame));
    expect(read && [...samplesOf(read)]).toEqual(samples);
  });
});

test.each([
  [0, 1, true], [1, 1, false], [2, 1, false], [65_535, 0, true], [0, 65_535, false], [65_000, 3, true], [3, 65_000, false],
])("generation %i is older than %i: %s", (generation, other, older) => {
  expect(isOlder(generation, other)).toBe(older);
});

test("generations start again after the last one", () => {
  expect([nextGeneration(0), nextGeneration(65_535)]).toEqual([1, 0]);
});
