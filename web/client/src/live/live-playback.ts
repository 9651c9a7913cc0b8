import { liveFrame } from "./live-frames.js";
import { isOlder, type MediaFrame, nextGeneration, samplesOf } from "./media-frame.js";

/** A player of the agent's voice. */
export interface SpeakerLike {
  /** Play samples after those before, at the rate that `onConnect` has named (24000 per second). */
  play(pcm: Int16Array<ArrayBuffer>, generation: number): void;
  /** Drop the samples of older generations than this one that are not played yet. */
  flush(generation: number): void;
  /** Return how many milliseconds were really played of the current generation, or of the last one. */
  played(): { generation: number; ms: number };
}

/** A piece of the agent's voice. */
export type LiveAudioChunk = {
  pcm: Int16Array<ArrayBuffer>;
  generation: number;
  /** Milliseconds since the audio began. */
  position: number;
  /** True for the last audio of a turn. */
  last: boolean;
};

export type LivePlaybackOptions = {
  speaker?: SpeakerLike | undefined;
  onAudioStart?: ((sound: { generation: number }) => void) | undefined;
  onAudioChunk?: ((chunk: LiveAudioChunk) => void) | undefined;
  onAudioStop?: ((sound: { generation: number; interrupted: boolean }) => void) | undefined;
};

/** Milliseconds between reports of how much was played. */
const REPORT_INTERVAL = 250;
/** Reports in a row without progress after which nothing is being played. */
const MAX_SAME_REPORTS = 8;

/**
 * The playback of the agent's voice: it drops audio that was interrupted, and reports to the server how much was
 * played.
 */
export class LivePlayback {
  /** Audio frames that were dropped because they came after an interruption. */
  dropped = 0;
  /** Audio of generations before this one is dropped. */
  private oldestPlayed = 0;
  /** The generation whose audio is coming. */
  private current: number | undefined;
  /** The last generation whose audio has come, also when it is complete. */
  private latest: number | undefined;
  private timer: ReturnType<typeof setInterval> | undefined;
  private lastReport = "";
  private sameReports = 0;

  constructor(
    private readonly options: LivePlaybackOptions,
    private readonly send: (frame: string) => void,
  ) {}

  /** Play audio of the server, unless it was interrupted. */
  receive(frame: MediaFrame): void {
    if (isOlder(frame.generation, this.oldestPlayed)) return void (this.dropped += 1);
    const { generation, position, last } = frame;
    const pcm = samplesOf(frame);
    this.begin(generation);
    if (pcm.length > 0) this.options.speaker?.play(pcm, generation);
    this.options.onAudioChunk?.({ pcm, generation, position, last });
    if (last) this.end(false);
  }

  /** A connection has opened. On one that does not resume the conversation, generations are counted anew. */
  connected(generation: number, resumed: boolean): void {
    if (resumed) return this.dropBefore(generation);
    this.stop();
    this.oldestPlayed = generation;
    if (this.latest !== undefined) this.options.speaker?.flush(generation);
    this.latest = undefined;
  }

  /** Drop audio of older generations than this one, also in the speaker. */
  dropBefore(generation: number): void {
    if (isOlder(generation, this.oldestPlayed)) return;
    this.oldestPlayed = generation;
    this.options.speaker?.flush(generation);
    if (this.current !== undefined && isOlder(this.current, generation)) this.end(true);
  }

  /** Interrupt the voice in this page: report how much was played, then drop the rest. */
  interrupt(): void {
    this.report();
    this.stopReporting();
    // Also when all of the audio has come: it may still be playing.
    if (this.latest !== undefined) this.dropBefore(nextGeneration(this.latest));
  }

  /** The connection has ended: no more audio comes. */
  stop(): void {
    this.stopReporting();
    if (this.current !== undefined) this.end(true);
  }

  private begin(generation: number): void {
    if (this.current !== generation) {
      if (this.current !== undefined) this.end(true);
      this.current = this.latest = generation;
      this.options.onAudioStart?.({ generation });
    }
    this.sameReports = 0;
    if (this.options.speaker) this.timer ??= setInterval(() => this.tick(), REPORT_INTERVAL);
  }

  private end(interrupted: boolean): void {
    const generation = this.current;
    this.current = undefined;
    if (generation !== undefined) this.options.onAudioStop?.({ generation, interrupted });
  }

  private tick(): void {
    this.sameReports = this.report() ? 0 : this.sameReports + 1;
    if (this.sameReports >= MAX_SAME_REPORTS) this.stopReporting();
  }

  /** Report how much was played. Return false when there is nothing new. */
  private report(): boolean {
    const played = this.options.speaker?.played();
    const report = JSON.stringify(played);
    if (played === undefined || played.ms <= 0 || report === this.lastReport) return false;
    this.lastReport = report;
    this.send(liveFrame("played", { generation: played.generation, ms: Math.round(played.ms) }));
    return true;
  }

  private stopReporting(): void {
    clearInterval(this.timer);
    this.timer = undefined;
    this.sameReports = 0;
  }
}
