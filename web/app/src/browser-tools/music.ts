import { strings } from "../strings";
import { renderTrack, type Track } from "./render-track";

const VOLUME = 0.9;
const FADE_SECONDS = 0.4;
const PATIENCE_MS = 1500;

interface Playing {
  track: Track;
  source: AudioBufferSourceNode;
  level: GainNode;
}

/** Resume an audio context. A browser that blocks sound does not reject: the promise stays pending. */
async function wake(context: AudioContext): Promise<void> {
  const patience = new Promise((resolve) => setTimeout(resolve, PATIENCE_MS));
  await Promise.race([context.resume(), patience]);
  if (context.state !== "running") throw new Error(strings().browserTools.soundBlocked);
}

/** The background music of this page: one track at a time, or none. */
class Music {
  #context: AudioContext | null = null;
  #playing: Playing | null = null;
  #loops = new Map<Track, Promise<AudioBuffer>>();
  #listeners = new Set<() => void>();

  /** The track that plays. */
  readonly track = (): Track | null => this.#playing?.track ?? null;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly stop = (): void => this.#change(null);

  /** Play a track instead of the other one. Throws when the browser blocks sound. */
  async play(track: Track): Promise<void> {
    this.#context ??= new AudioContext();
    await wake(this.#context);
    const loop = await this.#loop(track);
    if (this.#playing?.track !== track) this.#change({ track, ...this.#start(this.#context, loop) });
  }

  #loop(track: Track): Promise<AudioBuffer> {
    const loop = this.#loops.get(track) ?? renderTrack(track);
    this.#loops.set(track, loop);
    return loop;
  }

  #start(context: AudioContext, buffer: AudioBuffer): Omit<Playing, "track"> {
    const source = new AudioBufferSourceNode(context, { buffer, loop: true });
    const level = new GainNode(context, { gain: 0 });
    level.gain.setTargetAtTime(VOLUME, context.currentTime, FADE_SECONDS / 3);
    source.connect(level).connect(context.destination);
    source.start();
    return { source, level };
  }

  #change(next: Playing | null): void {
    const last = this.#playing;
    if (last) {
      const now = last.level.context.currentTime;
      last.level.gain.setTargetAtTime(0, now, FADE_SECONDS / 3);
      last.source.stop(now + 2 * FADE_SECONDS);
    }
    this.#playing = next;
    for (const listener of this.#listeners) listener();
  }
}

export const music = new Music();
