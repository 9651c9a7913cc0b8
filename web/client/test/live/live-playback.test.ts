import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { LivePlayback } from "../../src/live/live-playback.js";
import { packMediaFrame, readMediaFrame } from "../../src/live/media-frame.js";

/** A speaker that notes its calls; the test sets how much was played. */
class NotedSpeaker {
  progress = { generation: 0, ms: 0 };

  constructor(private readonly notes: string[]) {}

  play(pcm: Int16Array, generation: number): void {
    this.notes.push(`play ${pcm.length} of ${generation}`);
  }

  flush(generation: number): void {
    this.notes.push(`flush before ${generation}`);
  }

  played(): { generation: number; ms: number } {
    return this.progress;
  }
}

function scene(): { notes: string[]; speaker: NotedSpeaker; playback: LivePlayback; receive: (generation: number, last?: boolean) => void } {
  const notes: string[] = [];
  const speaker = new NotedSpeaker(notes);
  const playback = new LivePlayback(
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
  const receive = (generation: number, last = false): void => {
    const payload = new Uint8Array(last ? 0 : 4);
    const frame = readMediaFrame(packMediaFrame({ kind: "pcm", generation, position: 0, last, payload }));
    if (frame) playback.receive(frame);
  };
  return { notes, speaker, playback, receive };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("the agent's voice", () => {
  test("is played and reported, from its first piece to its last", () => {
    const { notes, receive } = scene();
    receive(1);
    receive(1);
    receive(1, true);
    expect(notes).toEqual(["start 1", "play 2 of 1", "chunk 2 of 1", "play 2 of 1", "chunk 2 of 1", "chunk 0 of 1, the last", "stop 1"]);
  });

  test("of an older generation is dropped and counted", () => {
    const { notes, playback, receive } = scene();
    receive(1);
    playback.dropBefore(3);
    notes.length = 0;
    receive(1);
    receive(2);
    expect([notes, playback.dropped]).toEqual([[], 2]);
    receive(3);
    expect(notes).toEqual(["start 3", "play 2 of 3", "chunk 2 of 3"]);
  });

  test("is ended by an interruption of the server", () => {
    const { notes, playback, receive } = scene();
    receive(1);
    notes.length = 0;
    playback.dropBefore(2);
    playback.dropBefore(1);
    expect(notes).toEqual(["flush before 2", "break off 1"]);
  });

  test("is interrupted in the page: what was played is reported before the speaker is flushed", () => {
    const { notes, speaker, playback, receive } = scene();
    receive(1);
    receive(1, true);
    speaker.progress = { generation: 1, ms: 119.6 };
    notes.length = 0;
    playback.interrupt();
    expect(notes).toEqual(["played 120 ms of 1", "flush before 2"]);
    notes.length = 0;
    receive(1);
    expect(notes).toEqual([]);
  });

  test("that never came is not interrupted", () => {
    const { notes, playback } = scene();
    playback.interrupt();
    expect(notes).toEqual([]);
  });

  test("is reported every 250 ms while more of it is played, and then no more", () => {
    const { notes, speaker, receive } = scene();
    receive(1);
    notes.length = 0;
    for (const ms of [0, 200, 450, 450, 700]) {
      speaker.progress = { generation: 1, ms };
      vi.advanceTimersByTime(250);
    }
    expect(notes).toEqual(["played 200 ms of 1", "played 450 ms of 1", "played 700 ms of 1"]);
    vi.advanceTimersByTime(10_000);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("goes on over a connection that resumes the conversation, and starts again with another one", () => {
    const { notes, playback, receive } = scene();
    receive(7);
    playback.interrupt();
    notes.length = 0;
    playback.connected(7, true);
    receive(7);
    expect(notes).toEqual([]);
    playback.connected(0, false);
    receive(0);
    expect(notes).toEqual(["flush before 0", "start 0", "play 2 of 0", "chunk 2 of 0"]);
  });
});
