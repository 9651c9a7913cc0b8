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

/** Return whether a text has characters that nobody would see in a text field. */
export function hidesCharacters(text: string): boolean {
  return text.replaceAll("\n", "").search(INVISIBLE) !== -1;
}

/** Return whether a value has whole numbers that JavaScript may have rounded. */
export function isRounded(value: unknown): boolean {
  if (typeof value === "number") return Math.abs(value) > Number.MAX_SAFE_INTEGER;
  return typeof value === "object" && value !== null && Object.values(value).some(isRounded);
}

const LONGEST_WORDS = 80;

/** Return the plain values in a call's input, in one line: what the call is about, in a few words. */
export function inShort(input: unknown): string {
  const values = typeof input === "object" && input !== null ? Object.values(input) : [input];
  const plain = values.filter((value) => ["string", "number", "boolean"].includes(typeof value) && value !== "");
  const line = plain.map((value) => String(value).slice(0, LONGEST_WORDS)).join(", ").replaceAll("\n", " ").replace(INVISIBLE, escaped);
  return line.length > LONGEST_WORDS ? `${line.slice(0, LONGEST_WORDS)}...` : line;
}
