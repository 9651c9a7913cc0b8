import { WebSocket } from "ws";
import { describe, GUARD } from "./counting-fetch.mjs";

/** The keys of the official frames; what else is in one is noted. */
const OFFICIAL = new Set(["type", "requestId", "sequence", "chunk", "errorText"]);
const OURS = new Set(["pong"]);
/** What our live socket says besides: it is kept. */
const TOLD = new Set(["ready", "turn", "state", "user-transcript", "interrupted", "call-settled", "notice"]);

/**
 * A socket class that notes every `send` and `resume` frame as a request, in the words of `countingFetch`: `POST` and
 * `GET`, 200 for what has begun, 204 for `no-active`, "error" for what was refused. A turn that the server begins is one
 * too, a `TURN`. What is taken up again on another socket stays one request. `open` are the sockets of the moment,
 * `strange` the frames that no request owns, `liveFrames` the frames that only our live socket gets, `sentTypes` the types of all other sent frames,
 * `sounds` how many frames of sound came. While the book is `dead`, nothing gets through.
 */
export function countingSocket(changed) {
  const book = { requests: [], strange: [], liveFrames: [], sentTypes: [], sounds: 0, dead: false, open: new Set() };
  const owned = new Map();

  class CountingSocket extends WebSocket {
    constructor(...args) {
      super(...args);
      this.asked = [];
      book.open.add(this);
      this.on("message", (data, isBinary) => (isBinary ? book.sounds++ : this.take(String(data))));
      this.on("close", () => this.gone());
      if (book.dead) this.terminate();
    }

    send(data, ...rest) {
      if (book.dead) return;
      if (typeof data === "string") this.note(JSON.parse(data));
      else book.sentTypes.push("binary");
      super.send(data, ...rest);
    }

    note({ type, requestId, ...frame }) {
      if (type === "abort" && owned.has(requestId)) owned.get(requestId).aborts++;
      if (type === "send" || type === "resume") this.ask(requestId, METHODS[type], frame);
      else if (type !== "ping") book.sentTypes.push(type);
    }

    ask(requestId, method, frame) {
      const again = owned.get(requestId);
      if (again) return this.takeUp(again);
      const request = asked(method, this, frame);
      owned.set(requestId, request);
      this.asked.push(request);
      book.requests.push(request);
      if (book.requests.length <= GUARD) return;
      // It is never sent, so nobody must wait for its end.
      giveUp(request, "aborted");
      throw new Error(`guard: more than ${GUARD} requests`);
    }

    takeUp(request) {
      request.cuts++;
      if (request.stream?.ended === "aborted") request.stream.ended = null;
      if (request.status === "aborted") request.status = null;
      this.asked.push(request);
    }

    take(text) {
      const frame = JSON.parse(text);
      if (frame.type === "turn") this.ask(frame.requestId, "TURN", { messageId: frame.messageId });
      const request = owned.get(frame.requestId);
      if (TOLD.has(frame.type) && this.protocol) book.liveFrames.push(frame);
      else if (request) answered(request, frame);
      else if (!OURS.has(frame.type)) book.strange.push(text.slice(0, 500));
      changed();
    }

    gone() {
      book.open.delete(this);
      for (const request of this.asked) giveUp(request, "aborted");
      changed();
    }
  }
  return { book, CountingSocket };
}

/** Whether nothing more will come for a request. */
export function isOver({ status, stream }) {
  return stream ? stream.ended !== null : status !== null;
}

const METHODS = { send: "POST", resume: "GET" };

function asked(method, { protocol, url }, frame) {
  return { over: "socket", protocol, aborts: 0, cuts: 0, extras: [], ...describe(method, new URL(url).pathname, frame) };
}

/** Nothing more is expected for a request, and this is why. */
export function giveUp(request, why) {
  if (request.stream) request.stream.ended ??= why;
  else request.status ??= why;
}

function answered(request, frame) {
  const extras = Object.keys(frame).filter((key) => !OFFICIAL.has(key));
  request.extras = [...new Set([...request.extras, ...extras])];
  if (isOver(request)) request.stream ? request.stream.afterDone++ : request.extras.push(`${frame.type} after the end`);
  else (answers[frame.type] ?? answers.unknown)(request, frame);
}

const answers = {
  start(request) {
    request.status = 200;
    request.stream ??= { chunks: [], ids: [], sequences: [], done: false, afterDone: 0, malformed: [], ended: null };
  },
  chunk(request, frame) {
    const { stream } = request;
    request.run ??= frame.id?.slice(0, frame.id.lastIndexOf(":")) ?? null;
    stream.chunks.push(frame.chunk);
    stream.ids.push(frame.id ?? null);
    stream.sequences.push(frame.sequence);
  },
  end({ stream }) {
    Object.assign(stream, { done: true, ended: "closed" });
  },
  "no-active"(request) {
    request.status = 204;
  },
  error(request, { errorText }) {
    if (request.stream) request.stream.ended = `in an error: ${errorText}`;
    else request.status = "error";
  },
  unknown(request, { type }) {
    request.extras.push(`a frame ${type}`);
  },
};
