/** A JSON object whose fields are not checked yet, such as a frame from the server. */
export type JsonObject = Record<string, unknown>;

/** Return true for an object that is no array. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Parse a text that should be a JSON object; undefined when it is not. */
export function parseJsonObject(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Return a string as it is, and an empty string for any other value. */
export function stringOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
