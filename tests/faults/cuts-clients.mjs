// Usage: node cuts-clients.mjs CLIENT, a folder with the compiled npm package. Orders come as JSON lines:
// {do: "talk", name, url, over: "sse" | "socket", major: 6 | 7, turns} begins a conversation, {do: "enough", name} lets it end.
// A conversation says its turns over and over until it was told that it is enough, and then the last one once more.
// It approves what is asked. What it tells, as JSON lines: {name, opened: true} when the first chunk has come, and at the end
// {name, streams: [{run, chunks}], errors, messages, resumes, failure}.
import { createInterface } from "node:readline";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import * as ai6 from "ai-6-0-326";
import * as ai7 from "ai-7-0-169";
import { WebSocket } from "ws";
import "../patience.mjs";

const { ResumableSseTransport, WebSocketChatTransport, resilientWebSocket } = await import(
  pathToFileURL(join(process.argv[2], "index.js"))
);
const majors = {
  6: { ai: ai6, client: "ai/6.0.326", SocketTransport: WebSocketChatTransport },
  7: { ai: ai7, client: "ai/7.0.169", SocketTransport: ai7.WebSocketChatTransport },
};
const BACKOFF = { initial: 60, max: 1000, attempts: 1000 };
const SILENCE = 2000;
/** More approvals than the one payment of a turn can need, also when a crash made the server ask again. */
const APPROVALS = 5;

const conversations = new Map();

class State {
  constructor(changed) {
    this.changed = changed;
    this.messages = [];
    this.now = "ready";
    this.error = undefined;
  }
  get status() {
    return this.now;
  }
  set status(value) {
    this.now = value;
    this.changed();
  }
  pushMessage = (message) => void (this.messages = [...this.messages, message]);
  popMessage = () => void (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) => void (this.messages = this.messages.with(index, structuredClone(message)));
  snapshot = (value) => structuredClone(value);
}

class Conversation {
  constructor({ name, url, over, major, turns }) {
    Object.assign(this, { name, url, turns });
    this.major = majors[major];
    this.streams = [];
    this.errors = [];
    this.resumes = 0;
    this.enough = false;
    this.waiting = new Set();
    this.transport = over === "sse" ? this.sse() : this.socket();
    this.chat = this.newChat();
  }

  newChat() {
    const { ai } = this.major;
    class Chat extends ai.AbstractChat {}
    return new Chat({
      id: this.name,
      state: new State(() => this.changed()),
      transport: this.tapped(),
      sendAutomaticallyWhen: (state) => this.resends(state),
      onError: (error) => void this.errors.push(error.message),
    });
  }

  sse() {
    const onState = ({ status, run }) => {
      if (run !== undefined) this.streams.at(-1).run = run;
      if (status === "resumed") this.resumes += 1;
    };
    const { client } = this.major;
    return new ResumableSseTransport({ api: `${this.url}/api/chat`, client, backoff: BACKOFF, silence: SILENCE, onState });
  }

  socket() {
    const note = (data) => {
      const { type, id } = JSON.parse(data);
      if (type === "chunk") this.streams.at(-1).run = id.split(":")[0];
    };
    class Tapped extends WebSocket {
      constructor(url, protocols) {
        super(url, protocols);
        this.on("message", note);
      }
    }
    const onState = (state, { requests }) => void (this.resumes += state === "open" && requests > 0 ? 1 : 0);
    const times = { pingInterval: 500, silence: SILENCE, connectTimeout: SILENCE };
    return new this.major.SocketTransport({
      url: `${this.url.replace("http", "ws")}/api/chat/ws`,
      webSocket: resilientWebSocket({ WebSocket: Tapped, backoff: BACKOFF, onState, ...times }),
      params: { client: this.major.client },
    });
  }

  /** The transport, but every chunk that it hands to the chat is noted. */
  tapped() {
    const { transport } = this;
    const sendMessages = async (options) => {
      const stream = { run: null, chunks: [] };
      this.streams.push(stream);
      return (await transport.sendMessages(options)).pipeThrough(this.noting(stream.chunks));
    };
    return { sendMessages, reconnectToStream: () => Promise.reject(new Error("nobody reloads here")) };
  }

  noting(chunks) {
    return new TransformStream({
      transform: (chunk, controller) => {
        // As it was handed over: what the chat does with it comes later.
        chunks.push(structuredClone(chunk));
        if (this.streams.length === 1 && chunks.length === 1) tell({ name: this.name, opened: true });
        controller.enqueue(chunk);
      },
    });
  }

  changed() {
    for (const wake of this.waiting) wake();
  }

  until(holds) {
    return new Promise((resolve) => {
      const wake = () => {
        if (!holds()) return;
        this.waiting.delete(wake);
        resolve();
      };
      this.waiting.add(wake);
      wake();
    });
  }

  async talk() {
    for (let turn = 0; turn < this.turns.length || !this.enough; turn++) await this.say(this.turns[turn % this.turns.length]);
    await this.say(this.turns.at(-1));
  }

  async say(text) {
    await this.chat.sendMessage({ text });
    for (let times = 0; this.card(); times++) {
      if (times === APPROVALS) throw new Error(`asked ${times} times`);
      await this.approve(this.card());
    }
  }

  card() {
    return this.chat.lastMessage.parts.find(({ state }) => state === "approval-requested");
  }

  /** Press the button; the chat then sends the answer by itself. */
  async approve({ approval }) {
    const before = this.streams.length;
    await this.chat.addToolApprovalResponse({ id: approval.id, approved: true });
    await this.until(() => this.streams.length > before && this.isResting());
  }

  resends(state) {
    return this.major.ai.lastAssistantMessageIsCompleteWithApprovalResponses(state);
  }

  /** Whether no request is under way, and none that the chat would make by itself. */
  isResting() {
    const { status, messages } = this.chat;
    return status === "error" || (status === "ready" && !this.resends({ messages }));
  }

  async perform() {
    let failure = null;
    try {
      await this.talk();
    } catch (error) {
      failure = error.stack;
    }
    this.transport.close?.();
    conversations.delete(this.name);
    const { name, streams, errors, resumes } = this;
    tell({ name, streams, errors, resumes, messages: this.chat.messages, failure });
  }
}

function tell(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  if (order.do === "enough") {
    const conversation = conversations.get(order.name);
    if (conversation) conversation.enough = true;
  } else {
    const conversation = new Conversation(order);
    conversations.set(order.name, conversation);
    void conversation.perform();
  }
}
// A hanging conversation must not keep the process.
process.stdout.write("", () => process.exit(0));
