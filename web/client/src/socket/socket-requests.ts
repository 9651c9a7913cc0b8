import { parsePosition } from "../common/position.js";
import type { DeliveredFrame, OfficialFrame, RequestFrame, StreamFrame } from "./socket-frames.js";
import { readClientFrame, socketError } from "./socket-frames.js";

/** Times that missing chunks are requested again before the request fails. */
const MAX_GAPS = 3;
const NOT_RECOVERED = "not-recovered";
const ENDED_WHILE_AWAY = "The answer ended while the connection was away and could not be recovered.";
const CHUNKS_LOST = "Parts of the answer were lost on the way. Reload to see all of it.";

type OpenRequest = {
  requestId: string;
  chat: string;
  /** The release of the AI SDK that the page has named in the body of its frame. */
  client: unknown;
  /** The page's own frame; empty once a chunk has come, since the request is then resumed and not repeated. */
  text: string;
  /** True once the frame was sent on a connection. */
  isSent: boolean;
  /** True once the server has begun to answer. */
  hasStarted: boolean;
  /** True once the page has aborted the request. */
  isAborted: boolean;
  /** The number of the last delivered chunk in this request; -1 before the first. */
  sequence: number;
  /** The position of the last delivered chunk in the run's stream log. */
  position: string | undefined;
  /** Times in a row that chunks were missing. */
  gaps: number;
};

/**
 * The requests of one socket that are not answered to the end. It does no I/O: it gets the frames that are sent and
 * received, and returns those to deliver and those that resume the requests after a lost connection.
 */
export class SocketRequests {
  /** Frames that came a second time and were not delivered. */
  repeated = 0;
  private readonly open = new Map<string, OpenRequest>();

  get size(): number {
    return this.open.size;
  }

  /** Characters of requests that are not sent yet. */
  get waiting(): number {
    return this.all.reduce((sum, request) => sum + (request.isSent ? 0 : request.text.length), 0);
  }

  private get all(): OpenRequest[] {
    return [...this.open.values()];
  }

  /**
   * Track a frame that the page sends. Return false for one that belongs to no request: it is not sent again from here.
   */
  track(data: unknown, isSent: boolean): boolean {
    const frame = readClientFrame(data);
    if (frame === undefined) return false;
    if (frame.type === "abort") this.abort(frame.requestId);
    else this.open.set(frame.requestId, openRequest(frame, data as string, isSent));
    return true;
  }

  /**
   * Track a turn that the server has begun by itself, so that it is resumed after a lost connection like any request.
   */
  adopt(requestId: string, chat: string): void {
    const frame: RequestFrame = { type: "resume", requestId, id: chat };
    const text = JSON.stringify({ ...frame, headers: {}, body: {} });
    this.open.set(requestId, { ...openRequest(frame, text, true), hasStarted: true });
  }

  private abort(requestId: string): void {
    const request = this.open.get(requestId);
    if (request === undefined) return;
    request.isAborted = true;
    if (!request.isSent) this.open.delete(requestId);
  }

  /** Return the frames that resume or repeat all open requests on a new connection, oldest request first. */
  recoveryFrames(): string[] {
    const frames = this.all.flatMap(recovery);
    for (const request of this.all) request.isSent = true;
    return frames;
  }

  /** Take a frame of the server. Return the frame to deliver, if any, or `"gap"` when chunks before it are missing. */
  receive(frame: StreamFrame): DeliveredFrame | "gap" | undefined {
    const request = this.open.get(frame.requestId);
    if (request === undefined) return undefined;
    if (frame.type === "chunk") return this.chunk(request, frame);
    if (frame.type === "start") return this.start(request, frame);
    this.open.delete(frame.requestId);
    if (frame.type === "error") return failed(request, frame.errorText, frame.code);
    return frame.type === "no-active" && request.hasStarted ? failed(request, ENDED_WHILE_AWAY, NOT_RECOVERED) : frame;
  }

  private start(request: OpenRequest, frame: StreamFrame): OfficialFrame | undefined {
    if (request.hasStarted) return undefined;
    request.hasStarted = true;
    return frame;
  }

  private chunk(request: OpenRequest, frame: StreamFrame & { type: "chunk" }): DeliveredFrame | "gap" | undefined {
    const { id, ...official } = frame;
    if (frame.sequence <= request.sequence) {
      this.repeated += 1;
      return undefined;
    }
    if (frame.sequence > request.sequence + 1) return this.gap(request);
    Object.assign(request, { sequence: frame.sequence, position: id, gaps: 0, hasStarted: true, text: "" });
    return { ...official, run: parsePosition(id)?.run };
  }

  private gap(request: OpenRequest): DeliveredFrame | "gap" {
    request.gaps += 1;
    if (request.gaps < MAX_GAPS) return "gap";
    this.open.delete(request.requestId);
    return failed(request, CHUNKS_LOST, NOT_RECOVERED);
  }

  /** End all requests. Return an error frame for each. */
  fail(errorText: string): DeliveredFrame[] {
    const frames = this.all.map((request) => failed(request, errorText));
    this.open.clear();
    return frames;
  }
}

function openRequest(frame: RequestFrame, text: string, isSent: boolean): OpenRequest {
  return {
    requestId: frame.requestId,
    chat: frame.id,
    client: frame.body?.client,
    text,
    isSent,
    hasStarted: false,
    isAborted: false,
    sequence: -1,
    position: undefined,
    gaps: 0,
  };
}

function recovery(request: OpenRequest): string[] {
  const again = request.sequence < 0 ? request.text : resume(request);
  return request.isAborted ? [again, JSON.stringify({ type: "abort", requestId: request.requestId })] : [again];
}

/** Return a frame that resumes a request. Without the page's body: the server takes long frames only for messages. */
function resume({ requestId, chat, client, sequence, position }: OpenRequest): string {
  const official = { type: "resume", requestId, id: chat, lastSequence: sequence, headers: {}, body: { client } };
  return JSON.stringify({ ...official, after: position });
}

/** Return the error frame for a request. One that the page has aborted has no error: the page is not to report it. */
function failed(request: OpenRequest, errorText: string, code?: string): DeliveredFrame {
  const { requestId, chat, position, isAborted } = request;
  const error = socketError(errorText, code, chat, parsePosition(position)?.run);
  return { type: "error", requestId, errorText, ...(!isAborted && { error }) };
}
