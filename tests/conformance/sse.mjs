// A reader of Server-Sent Events of its own, so that what travelled is known apart from what the client made of it.

/** Feed it decoded text; it fills `log` with chunks, event ids, comments and the end mark, in wire order. */
export class SseReader {
  constructor() {
    this.log = { chunks: [], ids: [], comments: 0, done: false, afterDone: 0, malformed: [] };
    this.buffer = "";
    this.forget();
  }

  forget() {
    this.data = [];
    this.id = null;
  }

  feed(text) {
    this.buffer += text;
    const lines = this.buffer.split(/\r\n|\n|\r/);
    this.buffer = lines.pop();
    for (const line of lines) this.line(line);
  }

  line(line) {
    if (line === "") return this.dispatch();
    if (line.startsWith(":")) return void this.log.comments++;
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.data.push(value);
    if (field === "id") this.id = value;
  }

  dispatch() {
    if (this.data.length > 0) this.event(this.data.join("\n"));
    this.forget();
  }

  event(data) {
    if (this.log.done) this.log.afterDone++;
    if (data === "[DONE]") return void (this.log.done = true);
    try {
      this.log.chunks.push(JSON.parse(data));
      this.log.ids.push(this.id);
    } catch {
      this.log.malformed.push(data.slice(0, 500));
    }
  }
}

/** Read a body to its end, telling `changed` of every piece; a cut connection is noted, not thrown. */
export async function readLog(body, reader, changed) {
  const decoder = new TextDecoder();
  try {
    for await (const bytes of body) {
      reader.feed(decoder.decode(bytes, { stream: true }));
      changed();
    }
    reader.log.ended = "closed";
  } catch (error) {
    reader.log.ended = error.name === "AbortError" ? "aborted" : `broken: ${error.message}`;
  }
}
