import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { LiveSound } from "../src/live-sound.js";
import { packMediaFrame, readMediaFrame } from "../src/media-frame.js";

/** A speaker that notes what it is told, and has heard what the test says. */
class NotedSpeaker {
  heard = { generation: 0, ms: 0 };

  constructor(private readonly notes: string[]) {}

  play(pcm: Int16Array, generation: number): void {
    this.notes.push(`play ${pcm.length} of ${generation}`);
  }

  flush(generation: number): void {
    this.notes.push(`flush before ${generation}`);
  }

  played(): { generation: number; ms: number } {
    return this.heard;
  }
}

function scene(): { notes: string[]; speaker: NotedSpeaker; sound: LiveSound; hear: (generation: number, last?: boolean) => void } {
  const notes: string[] = [];
  const speaker = new NotedSpeaker(notes);
  const sound = new LiveSound(
    {
      speaker,
      onAudioStart: ({ generation }) => notes.push(`start ${generation}`),
      onAudioChunk: ({ pcm, generation, last }) => notes.push(`chunk ${pcm.length} of ${generation}${last ? ", the last" : ""}`),
      onAudioStop: ({ generation, interrupted }) => notes.push(`${interrupted ? "break off" : "stop"} ${generation}`),
    },
    (frame) => {
      const { type, generation, ms } = JSON.parse(frame) as { type: string; generation: number; ms: number };
      notes.push(`${type} ${ms} ms of ${generation}`);
    },
  );
  const hear = (generation: number, last = false): void => {
    const payload = new Uint8Array(last ? 0 : 4);
    const frame = readMediaFrame(packMediaFrame({ kind: "pcm", generation, position: 0, last, payload }));
    if (frame) sound.receive(frame);
  };
  return { notes, speaker, sound, hear };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("the agent's voice", () => {
  test("is played and told of, from its first piece to its last", () => {
    const { notes, hear } = scene();
    hear(1);
    hear(1);
    hear(1, true);
    expect(notes).toEqual(["start 1", "play 2 of 1", "chunk 2 of 1", "play 2 of 1", "chunk 2 of 1", "chunk 0 of 1, the last", "stop 1"]);
  });

  test("of an older generation is dropped, and counted", () => {
    const { notes, sound, hear } = scene();
    hear(1);
    sound.forget(3);
    notes.length = 0;
    hear(1);
    hear(2);
    expect([notes, sound.void]).toEqual([[], 2]);
    hear(3);
    expect(notes).toEqual(["start 3", "play 2 of 3", "chunk 2 of 3"]);
  });

  test("is broken off by an interruption of the server", () => {
    const { notes, sound, hear } = scene();
    hear(1);
    notes.length = 0;
    sound.forget(2);
    sound.forget(1);
    expect(notes).toEqual(["flush before 2", "break off 1"]);
  });

  test("is hushed here first: what was heard is told before the speaker is flushed", () => {
    const { notes, speaker, sound, hear } = scene();
    hear(1);
    hear(1, true);
    speaker.heard = { generation: 1, ms: 119.6 };
    notes.length = 0;
    sound.hush();
    expect(notes).toEqual(["played 120 ms of 1", "flush before 2"]);
    notes.length = 0;
    hear(1);
    expect(notes).toEqual([]);
  });

  test("that never sounded leaves nothing to hush", () => {
    const { notes, sound } = scene();
    sound.hush();
    expect(notes).toEqual([]);
  });

  test("is reported every 250 ms while more of it is heard, and not for ever", () => {
    const { notes, speaker, hear } = scene();
    hear(1);
    notes.length = 0;
    for (const ms of [0, 200, 450, 450, 700]) {
      speaker.heard = { generation: 1, ms };
      vi.advanceTimersByTime(250);
    }
    expect(notes).toEqual(["played 200 ms of 1", "played 450 ms of 1", "played 700 ms of 1"]);
    vi.advanceTimersByTime(10_000);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("goes on over a new connection to the same run, and begins anew with another", () => {
    const { notes, sound, hear } = scene();
    hear(7);
    sound.hush();
    notes.length = 0;
    sound.connected(7, true);
    hear(7);
    expect(notes).toEqual([]);
    sound.connected(0, false);
    hear(0);
    expect(notes).toEqual(["flush before 0", "start 0", "play 2 of 0", "chunk 2 of 0"]);
  });
});
