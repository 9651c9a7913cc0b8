/** A server-sent event: its data, and its own id if it has one. */
export interface SseEvent {
  data: string;
  id: string | undefined;
}

/** Characters that one event may have. Messages with pictures are large; only a stream that never ends is larger. */
const MAX_EVENT_CHARS = 64_000_000;

/**
 * A parser of server-sent events that takes bytes in pieces of any size. It returns an event when the blank line after
 * it has arrived, so an event that a lost connection cuts off is never returned in part.
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

  /** Return the events that these bytes complete. */
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
    // The second half of a \r\n whose \r ended the piece before: that line has been counted.
    const isSecondHalf = this.#afterReturn && text.startsWith("\n");
    this.#afterReturn = text.endsWith("\r");
    return isSecondHalf ? text.slice(1) : text;
  }

  #count(text: string): void {
    this.#chars += text.length;
    if (this.#chars > this.#maxChars) {
      throw new RangeError(`The server sent an event that is too large: more than ${this.#maxChars} characters.`);
    }
  }

  /** Take a whole line. Return the event that it ends, if it is the blank line after one. */
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
