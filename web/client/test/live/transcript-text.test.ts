import { expect, test } from "vitest";
import { TranscriptText } from "../../src/live/transcript-text.js";

test.each([
  ["pieces", [["pay ", false], ["ten", false]], "pay ten"],
  ["pieces, then all of it", [["pay ", false], ["ton", false], ["pay ten", true]], "pay ten"],
  ["all so far", [["pay", false], ["pay ten", false]], "pay ten"],
  ["two utterances", [["pay ten", true], ["to ", false], ["Ann", false], ["to Ann", true]], "pay ten to Ann"],
  ["two utterances, the second of which has all", [["pay ten", true], ["pay ten to Ann", true]], "pay ten to Ann"],
  ["the same twice", [["yes", true], ["yes", true]], "yes yes"],
  ["nothing", [["", true], ["yes", true], [" ", true]], "yes"],
] as [string, [string, boolean][], string][])("%s", (_, frames, text) => {
  const transcript = new TranscriptText();
  for (const [words, final] of frames) transcript.add(words, final);
  expect(transcript.text).toBe(text);
});
