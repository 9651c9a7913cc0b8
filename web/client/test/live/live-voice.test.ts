import { describe, expect, test } from "vitest";
import type { SpeakerLike } from "../../src/live/live-playback.js";
import { LivePage } from "../helpers/live-page.js";
import { majors } from "../helpers/majors.js";
import { textOf } from "../helpers/messages.js";

/** A second of a tone, in pieces of 20 ms. */
const SECOND = Array.from({ length: 50 }, (_, piece) =>
  Int16Array.from({ length: 320 }, (_, n) => 8000 * Math.sin((2 * Math.PI * 440 * (piece * 320 + n)) / 16_000)),
);

/** A speaker that has played a part of its audio, and notes which generations were flushed. */
class Ear implements SpeakerLike {
  samples = 0;
  flushed: number[] = [];
  private generation = 0;

  /** The part of the audio that was played, from 0 to 1. */
  constructor(private readonly share = 1) {}

  play(pcm: Int16Array, generation: number): void {
    if (generation !== this.generation) this.samples = 0;
    this.generation = generation;
    this.samples += pcm.length;
  }

  flush(generation: number): void {
    this.flushed.push(generation);
  }

  played(): { generation: number; ms: number } {
    return { generation: this.generation, ms: (this.samples / 24) * this.share };
  }
}

/** Speak for a second. */
async function speak(page: LivePage): Promise<void> {
  await page.transport.startAudio();
  for (const piece of SECOND) expect(page.transport.sendAudioChunk(piece)).toBe(true);
  await page.transport.stopAudio();
}

describe.each(majors)("ai $version", (major) => {
  test("a spoken turn: the user's message, the agent's message as text and audio", async () => {
    const ear = new Ear();
    const [audio, states, connected]: [string[], string[], unknown[]] = [[], [], []];
    const page = new LivePage(major, {
      transport: {
        speaker: ear,
        onAudioStart: ({ generation }) => audio.push(`start ${generation}`),
        onAudioStop: ({ generation, interrupted }) => audio.push(`stop ${generation} ${interrupted}`),
        onState: (state) => states.push(state),
        onConnect: ({ audio }) => connected.push(audio),
      },
    });
    await speak(page);
    await expect.poll(() => page.chat.messages.map(({ role }) => role)).toEqual(["user", "assistant"]);
    await page.ready();
    await expect.poll(() => audio.length).toBe(2);
    expect(textOf(page.chat.lastMessage)).not.toBe("");
    expect(ear.samples).toBeGreaterThan(0);
    expect(audio).toEqual(["start 1", "stop 1 false"]);
    expect(states).toContain("speaking");
    expect(connected).toEqual([{ input: { rate: 16_000, channels: 1, bitDepth: 16 }, output: { rate: 24_000, channels: 1, bitDepth: 16 } }]);
    expect([page.count("send"), page.errors]).toEqual([0, []]);
    await page.isAsStored();
    page.transport.close();
  });

  test("typed and spoken turns follow each other", async () => {
    const page = new LivePage(major);
    await page.chat.sendMessage({ text: "count to 3" });
    await speak(page);
    await expect.poll(() => page.chat.messages.length).toBe(4);
    await page.ready();
    await page.chat.sendMessage({ text: "count to 4" });
    expect(page.chat.messages.map(({ role }) => role)).toEqual(["user", "assistant", "user", "assistant", "user", "assistant"]);
    expect([page.count("send"), page.errors]).toEqual([2, []]);
    await page.isAsStored();
    page.transport.close();
  });

  test("a message that the chat sends by itself after a turn of the server is an ordinary one", async () => {
    const page = new LivePage(major);
    const bodies: (object | undefined)[] = [];
    const send = page.transport.sendMessages.bind(page.transport);
    page.transport.sendMessages = async (options) => (bodies.push(options.body), send(options));
    await speak(page);
    await expect.poll(() => page.chat.messages.length).toBe(2);
    await page.ready();
    expect(bodies).toEqual([{ liveTurn: expect.any(String) }]);
    // An automatic message has the body of the message before it.
    await page.chat.sendMessage({ text: "count to 3" }, { body: bodies[0] ?? {} });
    expect([page.chat.status, page.chat.messages.length, page.count("send")]).toEqual(["ready", 4, 1]);
    page.transport.close();
  });

  test("a user who speaks interrupts the agent", async () => {
    const page = new LivePage(major);
    const answered = page.chat.sendMessage({ text: "count to 500" });
    await expect.poll(() => textOf(page.chat.lastMessage)).toContain("3");
    await speak(page);
    await answered;
    await expect.poll(() => page.chat.messages.length).toBe(4);
    await page.ready();
    expect(textOf(page.chat.messages[1])).not.toContain("500");
    await page.isAsStored();
    page.transport.close();
  });

  test("what was played is reported before the interruption, and later audio is not played", async () => {
    const ear = new Ear();
    const broken: boolean[] = [];
    const page = new LivePage(major, { transport: { speaker: ear, onAudioStop: ({ interrupted }) => broken.push(interrupted) } });
    const answered = page.chat.sendMessage({ text: "count to 500" });
    await expect.poll(() => ear.samples).toBeGreaterThan(0);
    const before = page.sent.length;
    await page.transport.interrupt();
    expect([page.sent.slice(before).filter((type) => type !== "ping"), ear.flushed]).toEqual([["played", "interrupt"], [2]]);
    const { samples } = ear;
    await answered;
    expect([ear.samples, broken]).toEqual([samples, [true]]);
    await page.isAsStored();
    page.transport.close();
  });

  test("text that was not played is removed from the message", async () => {
    const ear = new Ear(0.5);
    const kept: (string | undefined)[] = [];
    const page = new LivePage(major, { transport: { speaker: ear, onInterruptRequest: (what) => kept.push(what.kept) } });
    const answered = page.chat.sendMessage({ text: "count to 500" });
    await expect.poll(() => textOf(page.chat.lastMessage)).toContain("9");
    const text = textOf(page.chat.lastMessage);
    await page.transport.interrupt();
    await answered;
    expect(kept).toEqual([expect.stringMatching(/^1 2/)]);
    expect(kept[0]?.length).toBeLessThan(text.length);
    expect(textOf(page.chat.lastMessage)).toBe(kept[0]);
    await page.isAsStored();
    page.transport.close();
  });

  test("a second page of the same chat shows the turn that is spoken in the first", async () => {
    const [first, errors]: [LivePage, string[]] = [new LivePage(major), []];
    await first.chat.sendMessage({ text: "count to 3" });
    const second = new LivePage(major, { chatId: first.chat.id, messages: [...first.chat.messages], transport: { onError: ({ message }) => errors.push(message) } });
    await second.chat.resumeStream();
    await speak(first);
    for (const page of [first, second]) {
      await expect.poll(() => page.chat.messages.length).toBe(4);
      await page.ready();
      await page.isAsStored();
    }
    expect(errors).toEqual([]);
    first.transport.close();
    second.transport.close();
  });
});
