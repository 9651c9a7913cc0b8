/** One of the two pieces of background music. */
export type Track = 0 | 1;

interface Voice {
  shape: OscillatorType;
  /** Seconds until a note is at its loudest, and until it has faded away after that. */
  attack: number;
  release: number;
  gain: number;
  pan: number;
}

/** When a note starts, in beats, and how high it is, as a MIDI number. */
type Note = readonly [beat: number, pitch: number];

interface Score {
  bpm: number;
  beats: number;
  parts: readonly { voice: Voice; notes: readonly Note[] }[];
}

const RATE = 44_100;
const PAD: Voice = { shape: "triangle", attack: 1.4, release: 4, gain: 0.05, pan: 0 };
const BELL: Voice = { shape: "sine", attack: 0.01, release: 2.2, gain: 0.1, pan: 0.35 };
const PLUCK: Voice = { shape: "triangle", attack: 0.005, release: 0.7, gain: 0.1, pan: -0.3 };
const BASS: Voice = { shape: "sine", attack: 0.03, release: 1.2, gain: 0.16, pan: 0 };

function chord(beat: number, ...pitches: number[]): Note[] {
  return pitches.map((pitch) => [beat, pitch]);
}

function arpeggio(beat: number, ...pitches: number[]): Note[] {
  return [...pitches, ...pitches].map((pitch, index) => [beat + index / 2, pitch]);
}

/** The first is still: wide chords and a few bells. The second walks: plucked chords over a bass. */
const SCORES: Record<Track, Score> = {
  0: {
    bpm: 60,
    beats: 12,
    parts: [
      { voice: PAD, notes: [...chord(0, 48, 55, 59, 64), ...chord(4, 45, 52, 60, 67), ...chord(8, 41, 53, 57, 64)] },
      { voice: BELL, notes: [[0.5, 76], [2, 79], [3.5, 74], [5, 72], [7, 76], [8.5, 69], [9.5, 72], [11, 67]] },
    ],
  },
  1: {
    bpm: 96,
    beats: 16,
    parts: [
      {
        voice: PLUCK,
        notes: [
          ...arpeggio(0, 65, 69, 72, 76), ...arpeggio(4, 64, 67, 72, 74),
          ...arpeggio(8, 62, 65, 69, 74), ...arpeggio(12, 62, 65, 70, 72),
        ],
      },
      { voice: BASS, notes: [[0, 41], [2.5, 48], [4, 36], [6.5, 43], [8, 38], [10.5, 45], [12, 34], [14.5, 41]] },
      { voice: BELL, notes: [[3, 84], [7, 79], [11, 81], [14, 77]] },
    ],
  },
};

function sound(context: OfflineAudioContext, voice: Voice, pitch: number, start: number): void {
  const end = start + voice.attack + voice.release;
  const oscillator = new OscillatorNode(context, { type: voice.shape, frequency: 440 * 2 ** ((pitch - 69) / 12) });
  const envelope = new GainNode(context, { gain: 0 });
  envelope.gain.setValueAtTime(0, start).linearRampToValueAtTime(voice.gain, start + voice.attack);
  envelope.gain.setTargetAtTime(0, start + voice.attack, voice.release / 5);
  const place = new StereoPannerNode(context, { pan: voice.pan });
  oscillator.connect(envelope).connect(place).connect(context.destination);
  oscillator.start(start);
  oscillator.stop(end);
}

/** Render a track as sound that loops without a seam. */
export async function renderTrack(track: Track): Promise<AudioBuffer> {
  const { bpm, beats, parts } = SCORES[track];
  const length = Math.round((beats * 60 * RATE) / bpm);
  // Played twice, and the second time kept: it begins with the notes that ring on from the end.
  const context = new OfflineAudioContext(2, 2 * length, RATE);
  for (const { voice, notes } of parts) {
    for (const [beat, pitch] of notes) {
      const start = (beat * 60) / bpm;
      sound(context, voice, pitch, start);
      sound(context, voice, pitch, start + length / RATE);
    }
  }
  const twice = await context.startRendering();
  const loop = new AudioBuffer({ numberOfChannels: 2, length, sampleRate: RATE });
  for (const channel of [0, 1]) loop.copyToChannel(twice.getChannelData(channel).subarray(length), channel);
  return loop;
}
