import { predicates } from "./predicates.mjs";
import { Signal } from "./signal.mjs";
import { LiveWire } from "./live-wire.mjs";
import { HttpWire, livePath, SocketWire } from "./wires.mjs";

/** The tools that a page executes: a call of another one that has its input is being executed. */
const BROWSER = new Set(["where", "clock", "music", "get_location", "change_bgm", "get_timezone"]);

/** The chat state as the stock frameworks keep it: push by reference, replace by structured clone. */
class State {
  constructor(messages, changed) {
    this.list = messages;
    this.now = "ready";
    this.error = undefined;
    this.changed = changed;
  }
  get status() {
    return this.now;
  }
  set status(value) {
    this.now = value;
    this.changed();
  }
  get messages() {
    return this.list;
  }
  set messages(value) {
    this.list = value;
    this.changed();
  }
  pushMessage = (message) => {
    this.messages = this.list.concat(message);
  };
  popMessage = () => {
    this.messages = this.list.slice(0, -1);
  };
  replaceMessage = (index, message) => {
    this.messages = [...this.list.slice(0, index), this.snapshot(message), ...this.list.slice(index + 1)];
  };
  snapshot = (value) => structuredClone(value);
}

/**
 * One page of a user: a stock `AbstractChat` over a stock transport, watched from outside.
 *
 * `sockets` is a module with a `WebSocketChatTransport`, `live` one with a `LiveChatTransport` or, if it is a stock one,
 * with a `WebSocketChatTransport`; without them the page talks over HTTP.
 * A page that is `named` resumes the run that the history has named, also when that has ended meanwhile.
 * `predicate` names the page's `sendAutomaticallyWhen`. `executor` says what the browser does with a call of its own:
 * tool -> `{output}` or `{error}`; a tool that is not in it waits for the person.
 */
export class ChatClient {
  constructor(ai, base, { id, messages = [], sockets, live, lastOnly, named = false, predicate = "eager", executor = {} }) {
    Object.assign(this, { ai, base, id, named, executor });
    this.wire = makeWire(ai, base, id, { sockets, live, lastOnly, named }, () => this.changed());
    this.statuses = ["ready"];
    this.errors = [];
    this.finishes = [];
    this.toolCalls = [];
    this.data = [];
    this.executions = [];
    this.answers = new Map();
    this.underway = new Set();
    this.signal = new Signal();
    this.resends = (state) => predicates[predicate](this, state);
    this.state = new State(messages, () => this.changed());
    this.chat = makeChat(ai, {
      id,
      state: this.state,
      transport: this.wire.transport,
      sendAutomaticallyWhen: this.resends,
      onError: (error) => this.errors.push(error.message),
      onFinish: (end) => this.finishes.push(pick(end, ["isAbort", "isDisconnect", "isError", "finishReason"])),
      onToolCall: ({ toolCall }) => this.called(toolCall),
      onData: (part) => void this.data.push(part),
    });
    this.wire.attach?.(this.chat, this.wire.transport);
  }

  /** Whether an answer stays open while a call of it waits. */
  get isLive() {
    return this.wire instanceof LiveWire;
  }

  called(toolCall) {
    this.toolCalls.push(toolCall);
    // Not awaited: the stream waits for this callback, and an output waits for the stream.
    if (toolCall.toolName in this.executor) void this.execute(toolCall);
  }

  /** What the page's own code does for a call; it takes a moment, as anything in a browser. */
  async execute({ toolCallId, toolName, input }) {
    this.executions.push({ toolCallId, toolName, input });
    const work = new Promise(setImmediate).then(() => this.output(toolName, toolCallId, this.executor[toolName]));
    this.underway.add(work);
    await work;
    this.underway.delete(work);
    this.changed();
  }

  /** Give a call its output, or with `error` say why there is none. */
  output(tool, toolCallId, { output, error }) {
    const given = error === undefined ? { state: "output-available", output } : { state: "output-error", errorText: error };
    this.answers.set(toolCallId, given.state);
    return this.chat.addToolOutput({ tool, toolCallId, ...given });
  }

  /** Press a button of an approval card. */
  verdict(part, approved, reason) {
    this.answers.set(part.toolCallId, "approval-responded");
    return this.chat.addToolApprovalResponse({ id: part.approval.id, approved, ...(reason && { reason }) });
  }

  /** The calls of a tool, over all messages. */
  calls(tool) {
    return this.chat.messages.flatMap(({ parts }) => parts.filter((part) => part.type === `tool-${tool}`));
  }

  /** Wait until the page has nothing to do any more: no request, no execution, and nothing it would send by itself. */
  idle() {
    const resting = () => this.chat.status === "ready" && !this.resends({ messages: this.chat.messages });
    const over = () => this.chat.status === "error" || resting() || this.waits();
    return this.until("rest", () => this.underway.size === 0 && over());
  }

  /** Whether an answer that is still open goes on only when the person has done something. */
  waits() {
    if (!this.isLive || this.chat.status !== "streaming" || !this.wire.mayWait) return false;
    const open = (this.chat.messages.at(-1)?.parts ?? []).filter((part) => part.type.startsWith("tool-") && !isAnswered(part));
    return open.length > 0 && open.every((part) => this.isMine(part));
  }

  /** Whether a call is the person's to answer, or what the page has to do by hand. */
  isMine({ type, state }) {
    const tool = type.slice("tool-".length);
    return state === "approval-requested" || (state === "input-available" && BROWSER.has(tool) && !(tool in this.executor));
  }

  /** Send something and wait for the end of the answer, or until that waits for the person. */
  ask(send) {
    const known = this.wire.requests.length;
    const answered = send();
    if (!this.isLive) return answered;
    const asksBack = this.until("the person's turn", () => this.wire.requests.length > known && this.waits());
    // Whichever comes first: the other one may never come.
    asksBack.catch(() => {});
    return Promise.race([answered, asksBack]);
  }

  changed() {
    if (this.state.status !== this.statuses.at(-1)) this.statuses.push(this.state.status);
    this.signal.changed();
  }

  /** Wait for a state of this client. */
  until(what, condition) {
    return this.signal.until(what, () => condition(this));
  }

  text() {
    const last = this.chat.messages.at(-1);
    return last?.role === "assistant" ? last.parts.map((part) => (part.type === "text" ? part.text : "")).join("") : "";
  }

  /** `what` is text, the type of a part, or "assistant": a message that has nothing in it yet. */
  untilSeen(what) {
    const last = () => this.chat.messages.at(-1) ?? { parts: [] };
    const shown = () => last().role === what || last().parts.some((part) => part.type === what);
    return this.until(what, () => this.text().includes(what) || shown());
  }

  /** Lose the connection, and give up what was waited for. What runs goes on. */
  leave() {
    return this.wire.leave(this.chat);
  }

  /** The run of the last request; the official frames do not tell. */
  run() {
    return this.wire.requests.at(-1)?.run ?? null;
  }

  /** All that pytest judges, once every stream has been read to its end. */
  async record() {
    await this.wire.settled();
    const { statuses, errors, finishes, toolCalls, data, executions } = this;
    const { requests, strange } = this.wire;
    const { liveFrames = [], sentTypes = [], sounds = 0 } = this.wire.book ?? {};
    const error = this.chat.error?.message ?? null;
    const { messages, status } = this.chat;
    const seen = { statuses, errors, finishes, toolCalls, data, executions, requests, strange, liveFrames, sentTypes, sounds };
    return structuredClone({ messages, status, error, ...seen });
  }
}

/** A denial is sent when all other calls of its step are answered. */
function isAnswered({ state, approval }) {
  return state.startsWith("output-") || (state === "approval-responded" && !approval.approved);
}

function makeWire(ai, base, chat, { sockets, live, lastOnly, named }, changed) {
  if (live?.LiveChatTransport) return new LiveWire(live, base, chat, changed);
  if (live) return new SocketWire(live, base, changed, lastOnly, livePath(chat));
  return sockets ? new SocketWire(sockets, base, changed, lastOnly) : new HttpWire(ai, base, changed, lastOnly, named);
}

function makeChat(ai, options) {
  class Chat extends ai.AbstractChat {}
  return new Chat(options);
}

function pick(object, keys) {
  return Object.fromEntries(keys.map((key) => [key, object[key]]));
}
