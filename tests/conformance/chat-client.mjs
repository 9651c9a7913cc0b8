import { countingFetch } from "./counting-fetch.mjs";

const PATIENCE = 30_000;

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

/** One page of a user: a stock `AbstractChat` over a stock `DefaultChatTransport`, watched from outside. */
export class ChatClient {
  constructor(ai, base, { id, messages = [], transport = {} }) {
    this.base = base;
    this.id = id;
    this.fetch = countingFetch(() => this.changed());
    this.statuses = ["ready"];
    this.errors = [];
    this.finishes = [];
    this.toolCalls = [];
    this.data = [];
    this.waiters = new Set();
    this.state = new State(messages, () => this.changed());
    this.chat = makeChat(ai, {
      id,
      state: this.state,
      transport: new ai.DefaultChatTransport({ api: `${base}/api/chat`, fetch: this.fetch.run, ...transport }),
      sendAutomaticallyWhen: eagerly(ai),
      onError: (error) => this.errors.push(error.message),
      onFinish: (end) => this.finishes.push(pick(end, ["isAbort", "isDisconnect", "isError", "finishReason"])),
      onToolCall: ({ toolCall }) => void this.toolCalls.push(toolCall),
      onData: (part) => void this.data.push(part),
    });
  }

  changed() {
    if (this.state.status !== this.statuses.at(-1)) this.statuses.push(this.state.status);
    for (const wake of this.waiters) wake();
  }

  /** Wait for a state of this client, woken by every change of it; the deadline only turns a hang into a failure. */
  until(what, condition) {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => finish(() => reject(new Error(`waited in vain for ${what}`))), PATIENCE);
      const finish = (act) => {
        clearTimeout(late);
        this.waiters.delete(wake);
        act();
      };
      const wake = () => condition(this) && finish(resolve);
      this.waiters.add(wake);
      wake();
    });
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

  run() {
    return this.fetch.requests.at(-1)?.headers["x-adkwire-run"] ?? null;
  }

  /** All that pytest judges, once every stream has been read to its end. */
  async record() {
    await this.fetch.settled();
    const { statuses, errors, finishes, toolCalls, data } = this;
    const { requests } = this.fetch;
    const error = this.chat.error?.message ?? null;
    return { messages: this.chat.messages, status: this.chat.status, statuses, error, errors, finishes, toolCalls, data, requests };
  }
}

function makeChat(ai, options) {
  class Chat extends ai.AbstractChat {}
  return new Chat(options);
}

/** The setting that loops most easily: re-send when approvals are answered or when every tool has its output. */
function eagerly(ai) {
  const helpers = [ai.lastAssistantMessageIsCompleteWithApprovalResponses, ai.lastAssistantMessageIsCompleteWithToolCalls];
  return (state) => helpers.some((helper) => helper?.(state));
}

function pick(object, keys) {
  return Object.fromEntries(keys.map((key) => [key, object[key]]));
}
