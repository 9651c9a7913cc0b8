const LONGEST_STRING = 2000;

function shorten(_key: string, value: unknown): unknown {
  if (typeof value !== "string" || value.length <= LONGEST_STRING) return value;
  return `${value.slice(0, 80)}... (${value.length.toLocaleString("en")} characters)`;
}

/** JSON to read; strings too long to read (base64) are cut and say so. */
export function prettyJson(value: unknown): string {
  return JSON.stringify(value, shorten, 2) ?? "nothing";
}

/** Characters that show nothing, or turn the text around them. */
const INVISIBLE = /[\p{Cf}\p{Zl}\p{Zp}\p{Cc}]/gu;

const escaped = (character: string): string =>
  character === "\n" ? character : [...Array(character.length).keys()]
    .map((index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`).join("");

/** JSON with nothing left out and nothing hidden, for someone who decides on it. */
export function exactJson(value: unknown): string {
  return (JSON.stringify(value, null, 2) ?? "nothing").replace(INVISIBLE, escaped);
}
