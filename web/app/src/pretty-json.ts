const LONGEST_STRING = 2000;

function shorten(_key: string, value: unknown): unknown {
  if (typeof value !== "string" || value.length <= LONGEST_STRING) return value;
  return `${value.slice(0, 80)}... (${value.length.toLocaleString("en")} characters)`;
}

/** JSON to read; strings too long to read (base64) are cut and say so. */
export function prettyJson(value: unknown): string {
  return JSON.stringify(value, shorten, 2) ?? "nothing";
}
