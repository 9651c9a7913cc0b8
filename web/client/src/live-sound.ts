import { isOlder, nextGeneration } from "./generation.js";
import { liveFrame } from "./live-frames.js";
import { type MediaFrame, samplesOf } from "./media-frame.js";
import type { SpeakerLike } from "./speaker-like.js";

/** A piece of the agent's voice. */
export type LiveAudioChunk = {
  pcm: Int16Array<ArrayBuffer>;
  generation: number;
  /** Milliseconds since the voice began. */
  position: number;
  /** Nothing more comes in this turn. */
  last: boolean;
};

export type LiveSoundOptions = {
  speaker?: SpeakerLike | undefined;
  onAudioStart?: ((sound: { generation: number }) => void) | undefined;
  onAudioChunk?: ((chunk: LiveAudioChunk) => void) | undefined;
  onAudioStop?: ((sound: { generation: number; interrupted: boolean }) => void) | undefined;
};

const REPORT_EVERY = 250;
/** After so many reports with nothing new nothing is being played. */
const QUIET = 8;

/** The agent's voice: what of it is still wanted, and how much of it was heard. */
export class LiveSound {
  /** Frames of sound that came too late to be heard. */
  void = 0;
  private oldest = 0;
  private sounding: number | undefined;
  private latest: number | undefined;
  private timer: ReturnType<typeof setInterval> | undefined;
  private reported = "";
  private quiet = 0;

  constructor(
    private readonly options: LiveSoundOptions,
    private readonly send: (frame: string) => void,
  ) {}

  /** Take sound of the server, unless nobody wants to hear it any more. */
  receive(frame: MediaFrame): void {
    if (isOlder(frame.generation, this.oldest)) return void (this.void += 1);
    const { generation, position, last } = frame;
    const pcm = samplesOf(frame);
    this.begin(generation);
    if (pcm.length > 0) this.options.speaker?.play(pcm, generation);
    this.options.onAudioChunk?.({ pcm, generation, position, last });
    if (last) this.end(false);
  }

  /** A connection begins. What does not go on with what was there before counts from the start. */
  connected(generation: number, resumed: boolean): void {
    if (resumed) return this.forget(generation);
    this.stop();
    this.oldest = generation;
    if (this.latest !== undefined) this.options.speaker?.flush(generation);
    this.latest = undefined;
  }

  /** All sound of older generations is void. */
  forget(generation: number): void {
    if (isOlder(generation, this.oldest)) return;
    this.oldest = generation;
    this.options.speaker?.flush(generation);
    if (this.sounding !== undefined && isOlder(this.sounding, generation)) this.end(true);
  }

  /** Somebody has heard enough: say how much that was, and be silent. */
  hush(): void {
    this.report();
    this.stopReporting();
    // All of it may have come, and still be playing.
    if (this.latest !== undefined) this.forget(nextGeneration(this.latest));
  }

  stop(): void {
    this.stopReporting();
    if (this.sounding !== undefined) this.end(true);
  }

  private begin(generation: number): void {
    if (this.sounding !== generation) {
      if (this.sounding !== undefined) this.end(true);
      this.sounding = this.latest = generation;
      this.options.onAudioStart?.({ generation });
    }
    this.quiet = 0;
    if (this.options.speaker) this.timer ??= setInterval(() => this.tick(), REPORT_EVERY);
  }

  private end(interrupted: boolean): void {
    const generation = this.sounding;
    this.sounding = undefined;
    if (generation !== undefined) this.options.onAudioStop?.({ generation, interrupted });
  }

  private tick(): void {
    this.quiet = this.report() ? 0 : this.quiet + 1;
    if (this.quiet >= QUIET) this.stopReporting();
  }

  private report(): boolean {
    const heard = this.options.speaker?.played();
    const told = JSON.stringify(heard);
    if (heard === undefined || heard.ms <= 0 || told === this.reported) return false;
    this.reported = told;
    this.send(liveFrame("played", { generation: heard.generation, ms: Math.round(heard.ms) }));
    return true;
  }

  private stopReporting(): void {
    clearInterval(this.timer);
    this.timer = undefined;
    this.quiet = 0;
  }
}
