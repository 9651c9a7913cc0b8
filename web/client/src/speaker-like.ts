/** What plays the agent's voice. */
export interface SpeakerLike {
  /** Play samples behind those before, at the rate that `onConnect` told (24000 a second). */
  play(pcm: Int16Array<ArrayBuffer>, generation: number): void;
  /** Drop what is not yet heard of generations older than this one. */
  flush(generation: number): void;
  /** How much was really heard, of what is or was last played. */
  played(): { generation: number; ms: number };
}
