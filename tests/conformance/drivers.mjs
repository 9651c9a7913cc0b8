// What a person does with a page, one function per way of using it. A driver acts; pytest judges.
import { perform } from "./acts.mjs";
import { ChatClient } from "./chat-client.mjs";
import { PATIENCE } from "../patience.mjs";
import { Signal } from "./signal.mjs";
import { sendOnce } from "./send-once.mjs";
import { readLog, SseReader } from "./sse.mjs";
import { livePath } from "./wires.mjs";

/** The world of one scenario: its chat, its clients, and the routes a page calls besides the transport. */
export class Scene {
  constructor(modules, base, chat) {
    Object.assign(this, { ...modules, base, chat, clients: {}, seen: {}, closing: new AbortController() });
  }

  get path() {
    return `${this.base}/api/chat/${encodeURIComponent(this.chat)}`;
  }

  /** A page; in a scenario over sockets it may be told to use HTTP, in a live one `over` "http" or "socket". */
  open(name, { http, over = http ? "http" : "live", ...options } = {}) {
    const sockets = over === "http" ? null : this.sockets;
    const live = over === "live" ? this.live : null;
    return (this.clients[name] = new ChatClient(this.ai, this.base, { id: this.chat, sockets, live, ...options }));
  }

  async history() {
    const signal = AbortSignal.timeout(PATIENCE);
    const response = await fetch(`${this.base}/api/chats/${encodeURIComponent(this.chat)}`, { signal });
    return response.ok ? response.json() : { status: response.status, text: await response.text() };
  }

  /** Open a page the way an app does on load: history first, then the transport's own resume. */
  async load(name, options = {}) {
    this.seen.loaded = await this.history();
    return this.open(name, { messages: this.seen.loaded.messages, ...options });
  }

  /** What a loaded page does then: the transport's own resume, which with `named` says which run the history has named. */
  resume(page) {
    const run = page.named ? this.seen.loaded.active?.run : undefined;
    return page.chat.resumeStream(run === undefined ? {} : { body: { run } });
  }

  /** One message in a chat of its own, as somebody else might send it; `name` tells several such chats apart. */
  async sayElsewhere(text, name = "elsewhere") {
    const message = { id: `user-${this.chat}-${name}`, role: "user", parts: [{ type: "text", text }] };
    const response = await postJson(`${this.base}/api/chat`, {
      id: `${this.chat}-${name}`,
      messages: [message],
      trigger: "submit-message",
    });
    await response.text();
  }

  /** A message of a page, sent without the page: what came, read as any client would. */
  async post(body) {
    const message = { id: this.chat, trigger: "submit-message", ...body };
    if (this.sockets) return sendOnce(this.base, message, this.live ? livePath(this.chat) : undefined);
    const response = await postJson(`${this.base}/api/chat`, message);
    if (!response.ok) return { status: response.status, chunks: [], text: await response.text() };
    const reader = new SseReader();
    await readLog(response.body, reader, () => {});
    return { status: response.status, chunks: reader.log.chunks, done: reader.log.done };
  }

  async stop(run) {
    const response = await postJson(`${this.path}/stop`, run ? { run } : {});
    this.seen.stop = { status: response.status, body: await response.json() };
  }

  /** Answer a call by its own route. */
  async answer(call, body) {
    const response = await postJson(`${this.path}/calls/${encodeURIComponent(call)}`, body);
    return { status: response.status, body: await response.json() };
  }

  /** Follow whatever runs in the chat to its end. */
  async ended() {
    const response = await fetch(`${this.path}/stream`, { signal: AbortSignal.timeout(PATIENCE) });
    await response.text();
  }

  /** Listen to the user's own event stream from now on. */
  async watch() {
    const response = await fetch(`${this.base}/api/events`, { signal: this.closing.signal });
    const reader = new SseReader();
    this.events = new Signal();
    this.events.log = reader.log;
    void readLog(response.body, reader, () => this.events.changed());
    // The first comment says that from here on nothing is missed.
    await this.events.until("the event stream", () => reader.log.comments > 0);
  }

  /** Wait until `times` events of this type have come for this chat. */
  received(type, times) {
    const found = () => this.events.log.chunks.filter((item) => item.type === type && item.chat === this.chat);
    return this.events.until(type, () => found().length >= times);
  }

  close() {
    this.closing.abort();
  }

  async audit() {
    const response = await fetch(`${this.base}/api/chats/${encodeURIComponent(this.chat)}/audit`);
    return response.json();
  }
}

function postJson(url, body) {
  return fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}

/** One message after the other; with `lastOnly` the page sends only the newest, as the SDK's documentation shows. */
async function say(scene, { texts, lastOnly }) {
  const page = scene.open("page", { lastOnly });
  for (const text of texts) await page.chat.sendMessage({ text });
}

/** Begin an answer and come back when `after` (text or a part's type) is on the screen, with the answer still running. */
async function begin(scene, { text, after }) {
  const page = scene.open("page");
  const whole = page.chat.sendMessage({ text });
  await page.untilSeen(after);
  return { page, whole };
}

const copyOf = ({ id, parts }) => ({ id, role: "user", parts });

export const drivers = {
  say,

  /** A list of single acts, one after the other. */
  act: perform,

  async attach(scene, { text, files }) {
    await scene.open("page").chat.sendMessage({ text, files });
  },

  /** The last answer again, or the one at `index`. */
  async regenerate(scene, { index, ...args }) {
    await say(scene, args);
    const { chat } = scene.clients.page;
    scene.seen.before = structuredClone(chat.messages);
    await chat.regenerate(index === undefined ? {} : { messageId: chat.messages[index].id });
  },

  async edit(scene, { index, text, ...args }) {
    await say(scene, args);
    const { chat } = scene.clients.page;
    scene.seen.before = structuredClone(chat.messages);
    await chat.sendMessage({ text, messageId: chat.messages[index].id });
  },

  /** As the stop button of a page does: end it on the server, go on talking. A transport over a socket says it itself. */
  async stop(scene, args) {
    const { page, whole } = await begin(scene, args);
    await page.chat.stop();
    await Promise.all([whole, scene.sockets || scene.stop(page.run())]);
    await scene.ended();
    scene.seen.stopped = { messages: structuredClone(page.chat.messages), history: await scene.history() };
    await page.chat.sendMessage({ text: args.next });
  },

  /** Stopped from elsewhere: the stream itself has to end well. */
  async "stop-from-elsewhere"(scene, args) {
    const { page, whole } = await begin(scene, args);
    await Promise.all([whole, scene.stop(page.run())]);
    await page.chat.sendMessage({ text: args.next });
  },

  async "stop-idle"(scene, { text }) {
    await say(scene, { texts: [text] });
    await scene.stop(scene.clients.page.run());
  },

  async "retry-after"(scene, { text }) {
    await say(scene, { texts: [text] });
    await scene.open("again").chat.sendMessage(copyOf(scene.clients.page.chat.messages[0]));
  },

  /** Nothing is said for a while but comments, then the answer goes on. */
  async heartbeat(scene, args) {
    const { page, whole } = await begin(scene, args);
    await page.until("two comments", () => page.wire.requests[0].stream.comments > 1);
    await scene.sayElsewhere(args.release);
    await whole;
  },

  /** The same message again while it is being answered: both get the whole answer. */
  async "retry-running"(scene, args) {
    const { page, whole } = await begin(scene, args);
    const again = scene.open("again");
    const same = again.chat.sendMessage(copyOf(page.chat.messages[0]));
    await again.untilSeen(args.after);
    await scene.sayElsewhere(args.release);
    await Promise.all([whole, same]);
  },

  async "retry-at-once"(scene, { text }) {
    const message = { id: `user-of-${scene.chat}`, role: "user", parts: [{ type: "text", text }] };
    const pages = [scene.open("page"), scene.open("again")];
    await Promise.all(pages.map((page) => page.chat.sendMessage(copyOf(message))));
  },

  async "resume-running"(scene, args) {
    const { whole } = await begin(scene, args);
    const second = await scene.load("second", { named: args.named });
    const rest = scene.resume(second);
    await second.untilSeen(args.after);
    if (args.release) await scene.sayElsewhere(args.release);
    await Promise.all([whole, rest]);
  },

  /** The answer ends between the two requests of a page that is loaded: its history, and what the transport resumes. */
  async "resume-ended"(scene, args) {
    const { whole } = await begin(scene, args);
    const second = await scene.load("second", { named: args.named });
    await scene.sayElsewhere(args.release);
    await whole;
    await scene.resume(second);
  },

  /** Two pages of one chat, one after the other; the first one never hears of what the second one asked. */
  async "two-pages"(scene, { texts }) {
    const [first, second, third] = texts;
    await say(scene, { texts: [first] });
    await (await scene.load("second")).chat.sendMessage({ text: second });
    await scene.clients.page.chat.sendMessage({ text: third });
  },

  /** A page that sends an answer back with nothing in it that was asked for. */
  async resend(scene, { text }) {
    await say(scene, { texts: [text] });
    await scene.clients.page.chat.sendMessage();
  },

  async "resume-idle"(scene, { text }) {
    await say(scene, { texts: [text] });
    await (await scene.load("second")).chat.resumeStream();
  },

  /** The tab is closed in mid-answer: the run goes on, the next page finds all of it. */
  async disconnect(scene, args) {
    const { page, whole } = await begin(scene, args);
    await page.leave();
    await whole;
    const second = await scene.load("second", { named: args.named });
    const rest = scene.resume(second);
    await second.untilSeen(args.after);
    if (args.release) await scene.sayElsewhere(args.release);
    await rest;
  },

  /** Typing over a running answer in one page: over HTTP with no word to the server but the new message. */
  async replace(scene, args) {
    const { page, whole } = await begin(scene, args);
    await page.chat.stop();
    await whole;
    scene.seen.stopped = { messages: structuredClone(page.chat.messages) };
    await page.chat.sendMessage({ text: args.next });
  },

  /** A second page types while the first one is being answered. */
  async "replace-from-elsewhere"(scene, args) {
    const { whole } = await begin(scene, args);
    const second = await scene.load("second");
    await Promise.all([second.chat.sendMessage({ text: args.next }), whole]);
  },
};
