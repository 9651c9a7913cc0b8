import { strings } from "../strings";

const LONGEST_STRING = 2000;

function shorten(_key: string, value: unknown): unknown {
  if (typeof value !== "string" || value.length <= LONGEST_STRING) return value;
  return strings().calls.shortened(value.slice(0, 80), value.length);
}

/** Return a value as JSON to read. Strings too long to read, such as base64, are cut and say so. */
export function prettyJson(value: unknown): string {
  return JSON.stringify(value, shorten, 2) ?? strings().calls.nothing;
}

/** Characters that show nothing, or reverse the text around them. */
const INVISIBLE = /[\p{Cf}\p{Zl}\p{Zp}\p{Cc}]/gu;

const escaped = (character: string): string =>
  character === "\n" ? character : [...Array(character.length).keys()]
    .map((index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`).join("");

/** Return a value as JSON with nothing left out and nothing hidden, for a person who decides about it. */
export function exactJson(value: unknown): string {
  return (JSON.stringify(value, null, 2) ?? strings().calls.nothing).replace(INVISIBLE, escaped);
}
