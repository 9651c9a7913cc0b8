import type { SseEvent } from "./sse-event.js";

/** An answer with pictures is large, one event of it never this large: a stream without an end must not fill the memory. */
const MAX_EVENT_CHARS = 64_000_000;

/**
 * Reads server-sent events from bytes, in whatever pieces they come. An event counts when its blank line is there: what a
 * cut leaves behind, be it half a line or half a character, is never told.
 */
export class SseParser {
  readonly #decoder = new TextDecoder();
  readonly #maxChars: number;
  #line = "";
  #afterReturn = false;
  #data: string[] = [];
  #id: string | undefined;
  #chars = 0;

  constructor(maxChars: number = MAX_EVENT_CHARS) {
    this.#maxChars = maxChars;
  }

  /** The events that are complete with these bytes. */
  push(bytes: Uint8Array): SseEvent[] {
    const events: SseEvent[] = [];
    const lines = this.#decode(bytes).split(/\r\n|\r|\n/);
    const rest = lines.pop() ?? "";
    for (const line of lines) {
      this.#count(line);
      const event = this.#end(this.#line + line);
      this.#line = "";
      if (event) events.push(event);
    }
    this.#count(rest);
    this.#line += rest;
    return events;
  }

  #decode(bytes: Uint8Array): string {
    const text = this.#decoder.decode(bytes, { stream: true });
    if (text === "") return "";
    // The other half of a line end that was cut in two.
    const isHalf = this.#afterReturn && text.startsWith("\n");
    this.#afterReturn = text.endsWith("\r");
    return isHalf ? text.slice(1) : text;
  }

  #count(text: string): void {
    this.#chars += text.length;
    if (this.#chars > this.#maxChars) throw new RangeError("The server sent an event that is too large to be one.");
  }

  #end(line: string): SseEvent | undefined {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") this.#data.push(value);
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    return undefined;
  }

  #dispatch(): SseEvent | undefined {
    const event = this.#data.length > 0 ? { data: this.#data.join("\n"), id: this.#id } : undefined;
    this.#data = [];
    this.#id = undefined;
    this.#chars = 0;
    return event;
  }
}
