import { parsePlace } from "./parse-place.js";
import { socketError } from "./socket-error.js";
import type { AnswerFrame, OfficialFrame, PassedFrame, RequestFrame } from "./socket-frames.js";
import { readClientFrame } from "./socket-frames.js";

/** Chunks that are missing again and again although asked for are lost: after so many tries the request fails. */
const MAX_GAPS = 3;
const NOT_RECOVERED = "not-recovered";
const ENDED_UNSEEN = "The answer ended while the connection was away and could not be recovered.";

type OpenRequest = {
  requestId: string;
  chat: string;
  /** What the page says it is, in the body of its frames. */
  client: unknown;
  /** The frame as the owner wrote it, until an answer has begun. */
  text: string;
  transmitted: boolean;
  started: boolean;
  aborted: boolean;
  /** The last chunk that the owner has: its number in this request and its place in the run's log. */
  sequence: number;
  place: string | undefined;
  gaps: number;
};

/**
 * The requests of one socket that are not yet answered to the end. No I/O: it is told what is sent and received, and
 * says what to transmit, what to pass on, and how to take up again after a drop.
 */
export class SocketRequests {
  /** Frames that came a second time and were not passed on. */
  repeated = 0;
  private readonly open = new Map<string, OpenRequest>();

  get size(): number {
    return this.open.size;
  }

  /** Characters of requests that have not left yet. */
  get waiting(): number {
    return this.all.reduce((sum, request) => sum + (request.transmitted ? 0 : request.text.length), 0);
  }

  private get all(): OpenRequest[] {
    return [...this.open.values()];
  }

  /** Take note of what the owner sends. False: it concerns no request, so nobody here will send it again. */
  note(data: unknown, transmitted: boolean): boolean {
    const frame = readClientFrame(data);
    if (frame === undefined) return false;
    if (frame.type === "abort") this.abort(frame.requestId);
    else this.open.set(frame.requestId, opened(frame, data as string, transmitted));
    return true;
  }

  /** Take note of an answer that the server has begun unasked: after a drop it is taken up like any other. */
  adopt(requestId: string, chat: string): void {
    const frame: RequestFrame = { type: "resume", requestId, id: chat };
    this.open.set(requestId, { ...opened(frame, JSON.stringify({ ...frame, headers: {}, body: {} }), true), started: true });
  }

  private abort(requestId: string): void {
    const request = this.open.get(requestId);
    if (request === undefined) return;
    request.aborted = true;
    if (!request.transmitted) this.open.delete(requestId);
  }

  /** All frames that take up the open requests on a new connection, in the order in which they were made. */
  recovery(): string[] {
    const frames = this.all.flatMap(recovering);
    for (const request of this.all) request.transmitted = true;
    return frames;
  }

  /** What to pass on of a frame of the server; `"gap"` when chunks before it are missing. */
  receive(frame: AnswerFrame): PassedFrame | "gap" | undefined {
    const request = this.open.get(frame.requestId);
    if (request === undefined) return undefined;
    if (frame.type === "chunk") return this.chunk(request, frame);
    if (frame.type === "start") return this.start(request, frame);
    this.open.delete(frame.requestId);
    if (frame.type === "error") return failed(request, frame.errorText, frame.code);
    return frame.type === "no-active" && request.started ? failed(request, ENDED_UNSEEN, NOT_RECOVERED) : frame;
  }

  private start(request: OpenRequest, frame: AnswerFrame): OfficialFrame | undefined {
    if (request.started) return undefined;
    request.started = true;
    return frame;
  }

  private chunk(request: OpenRequest, frame: AnswerFrame & { type: "chunk" }): PassedFrame | "gap" | undefined {
    const { id, ...official } = frame;
    if (frame.sequence <= request.sequence) {
      this.repeated += 1;
      return undefined;
    }
    if (frame.sequence > request.sequence + 1) return this.gap(request);
    Object.assign(request, { sequence: frame.sequence, place: id, gaps: 0, started: true, text: "" });
    return official;
  }

  private gap(request: OpenRequest): PassedFrame | "gap" {
    request.gaps += 1;
    if (request.gaps < MAX_GAPS) return "gap";
    this.open.delete(request.requestId);
    return failed(request, "Parts of the answer were lost on the way. Reload to see all of it.", NOT_RECOVERED);
  }

  /** End all requests: the frames that tell their owners why. */
  fail(errorText: string): PassedFrame[] {
    const frames = this.all.map((request) => failed(request, errorText));
    this.open.clear();
    return frames;
  }
}

function opened(frame: RequestFrame, text: string, transmitted: boolean): OpenRequest {
  return {
    requestId: frame.requestId,
    chat: frame.id,
    client: frame.body?.client,
    text,
    transmitted,
    started: false,
    aborted: false,
    sequence: -1,
    place: undefined,
    gaps: 0,
  };
}

function recovering(request: OpenRequest): string[] {
  const again = request.sequence < 0 ? request.text : resume(request);
  return request.aborted ? [again, JSON.stringify({ type: "abort", requestId: request.requestId })] : [again];
}

/** Short whatever the `send` carried: the server takes no long frames but messages. */
function resume({ requestId, chat, client, sequence, place }: OpenRequest): string {
  const official = { type: "resume", requestId, id: chat, lastSequence: sequence, headers: {}, body: { client } };
  return JSON.stringify({ ...official, after: place });
}

/** What is no longer wanted fails without a word to the page. */
function failed({ requestId, chat, place, aborted }: OpenRequest, errorText: string, code?: string): PassedFrame {
  const error = socketError(errorText, code, chat, parsePlace(place)?.run);
  return { type: "error", requestId, errorText, ...(!aborted && { error }) };
}
