import { PATIENCE } from "../patience.mjs";
import { readLog, SseReader } from "./sse.mjs";

/** More requests than any scenario needs: a client that gets here re-sends for ever. */
export const GUARD = 8;

/** A stream that never ends is recorded as it stands; pytest sees that it has no end. */
const ENOUGH = PATIENCE / 3;

/** A `fetch` that notes every request and keeps a second reading of every stream it brings. */
export function countingFetch(changed = () => {}) {
  const requests = [];
  const readings = [];
  const run = async (input, init = {}) => {
    const { pathname, search } = new URL(input);
    const body = typeof init.body === "string" ? JSON.parse(init.body) : {};
    const request = { over: "http", ...describe(init.method ?? "GET", pathname + search, body) };
    requests.push(request);
    if (requests.length > GUARD) throw new Error(`guard: more than ${GUARD} requests`);
    const response = await fetch(input, init);
    request.status = response.status;
    request.headers = Object.fromEntries(response.headers);
    request.run = response.headers.get("x-adkwire-run");
    return response.body && response.ok ? tapped(response, request, readings, changed) : response;
  };
  return { run, requests, settled: () => patiently(Promise.all(readings)) };
}

/** What a request asks for, and nothing yet of what comes. */
export function describe(method, path, { trigger = null, messageId = null, message, messages = [message] }) {
  const sent = messages.filter(Boolean).map(({ id, role, parts }) => ({ id, role, calls: statesOf(parts) }));
  return { method, path, trigger, messageId, sent, status: null, headers: {}, run: null, stream: null };
}

/** Wait for it, but not for ever. */
export function patiently(work) {
  return Promise.race([work, new Promise((late) => setTimeout(late, ENOUGH).unref())]);
}

/** The calls of a message by id, each with its state: what a re-sent message claims. */
function statesOf(parts = []) {
  return Object.fromEntries(parts.filter((part) => part.toolCallId).map((part) => [part.toolCallId, part.state]));
}

function tapped(response, request, readings, changed) {
  const [forClient, forLog] = response.body.tee();
  const reader = new SseReader();
  request.stream = reader.log;
  readings.push(readLog(forLog, reader, changed));
  return new Response(forClient, { status: response.status, headers: response.headers });
}
