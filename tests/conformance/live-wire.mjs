import { patiently } from "./counting-fetch.mjs";
import { countingSocket, giveUp, isOver } from "./counting-socket.mjs";
import { Signal } from "./signal.mjs";

const QUICK = { initial: 5, max: 50, attempts: 1000 };

/** Our `LiveChatTransport`, to which the chat is attached: one socket for all turns, which comes back by itself. */
export class LiveWire {
  signal = new Signal();
  failures = [];

  constructor({ LiveChatTransport, attach }, base, chat, changed) {
    const { book, CountingSocket } = countingSocket(() => {
      this.signal.changed();
      changed();
    });
    Object.assign(this, { book, attach });
    this.transport = new LiveChatTransport({
      url: `${base}/api/live`,
      chat,
      WebSocket: CountingSocket,
      backoff: QUICK,
      onError: ({ message }) => this.failures.push(`told as an error: ${message}`),
    });
  }

  get requests() {
    return this.book.requests;
  }

  get strange() {
    return [...this.book.strange, ...this.failures];
  }

  /** The last state of the conversation that was received. */
  get state() {
    return this.book.liveFrames.findLast(({ type }) => type === "state")?.state ?? null;
  }

  /** A client that joins while calls are pending gets no state. */
  get mayWait() {
    return this.state === null || this.state === "waiting";
  }

  received(type) {
    return this.book.liveFrames.filter((frame) => frame.type === type);
  }

  /** The connection breaks; come back when there is another. */
  async lose() {
    const known = this.received("ready").length;
    this.drop();
    await this.signal.until("another connection", () => this.received("ready").length > known);
  }

  /** The page is closed: no word gets out any more. */
  async leave(chat) {
    this.book.dead = true;
    this.drop();
    const stopped = chat.stop();
    this.transport.close();
    await Promise.all([stopped, this.gone()]);
    this.book.dead = false;
  }

  /** The end of what is being answered; an answer that waits for a person has none. */
  async settled() {
    const rests = () => this.mayWait || this.requests.every(isOver);
    await patiently(this.signal.until("the end of its answers", rests));
  }

  /** Hang up, as a page does that changes to another way. */
  async end() {
    this.transport.close();
    await patiently(this.gone());
    for (const request of this.requests) giveUp(request, "aborted");
  }

  drop() {
    for (const socket of this.book.open) socket.terminate();
  }

  async gone() {
    await this.signal.until("the end of its sockets", () => this.book.open.size === 0);
    await new Promise(setImmediate);
  }
}
