import { expect, test } from "vitest";
import { TranscriptText } from "../src/transcript-text.js";

test.each([
  ["pieces", [["pay ", false], ["ten", false]], "pay ten"],
  ["pieces, then all of it", [["pay ", false], ["ton", false], ["pay ten", true]], "pay ten"],
  ["all so far", [["pay", false], ["pay ten", false]], "pay ten"],
  ["two utterances", [["pay ten", true], ["to ", false], ["Ann", false], ["to Ann", true]], "pay ten to Ann"],
  ["two utterances, the second of which has all", [["pay ten", true], ["pay ten to Ann", true]], "pay ten to Ann"],
  ["the same twice", [["yes", true], ["yes", true]], "yes yes"],
  ["nothing", [["", true], ["yes", true], [" ", true]], "yes"],
] as [string, [string, boolean][], string][])("%s", (_, frames, text) => {
  const heard = new TranscriptText();
  for (const [said, final] of frames) heard.add(said, final);
  expect(heard.text).toBe(text);
});
