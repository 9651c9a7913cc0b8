import { readLog, SseReader } from "./sse.mjs";

/** More requests than any scenario needs: a client that gets here re-sends for ever. */
export const GUARD = 8;

/** A stream that never ends is recorded as it stands; pytest sees that it has no end. */
const PATIENCE = 10_000;

/** A `fetch` that notes every request and keeps a second reading of every stream it brings. */
export function countingFetch(changed = () => {}) {
  const requests = [];
  const readings = [];
  const run = async (input, init = {}) => {
    const request = describe(input, init);
    requests.push(request);
    if (requests.length > GUARD) throw new Error(`guard: more than ${GUARD} requests`);
    const response = await fetch(input, init);
    request.status = response.status;
    request.headers = Object.fromEntries(response.headers);
    return response.body && response.ok ? tapped(response, request, readings, changed) : response;
  };
  const settled = () => Promise.race([Promise.all(readings), new Promise((late) => setTimeout(late, PATIENCE).unref())]);
  return { run, requests, settled };
}

function describe(input, init) {
  const body = typeof init.body === "string" ? JSON.parse(init.body) : {};
  const { pathname, search } = new URL(input);
  return {
    method: init.method ?? "GET",
    path: pathname + search,
    trigger: body.trigger ?? null,
    messageId: body.messageId ?? null,
    sent: (body.messages ?? [body.message]).filter(Boolean).map(({ id, role, parts }) => ({ id, role, calls: statesOf(parts) })),
    status: null,
    headers: {},
    stream: null,
  };
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
