// How a page talks to the server: a transport, and a book of what travelled. `lose` breaks the connection under the page;
// after `leave` the page also waits for nothing more. `settled` is the end of it all.

import { countingFetch, patiently } from "./counting-fetch.mjs";
import { countingSocket, giveUp, isOver } from "./counting-socket.mjs";
import { Signal } from "./signal.mjs";

/** Send only the newest message, as the SDK's documentation shows. */
const lastMessageOnly = {
  prepareSendMessagesRequest: ({ id, messages, trigger, messageId }) => ({
    body: { id, message: messages.at(-1), trigger, messageId },
  }),
};

/** The same on a socket, whose frames have a field for it. */
const lastOfMessages = { prepareSendMessagesRequest: ({ messages }) => ({ messages: messages.slice(-1) }) };

/** Name the run to resume, as our documentation shows for stock clients. On a socket the request's body is enough. */
const namedRun = {
  prepareReconnectToStreamRequest: ({ api, id, body }) => ({ api: `${api}/${id}/stream?run=${body?.run ?? ""}` }),
};

/** The stock `DefaultChatTransport`. */
export class HttpWire {
  strange = [];

  constructor({ DefaultChatTransport }, base, changed, lastOnly, named) {
    const { run: fetch, requests, settled } = countingFetch(changed);
    Object.assign(this, { requests, settled });
    const options = { ...(lastOnly && lastMessageOnly), ...(named && namedRun) };
    this.transport = new DefaultChatTransport({ api: `${base}/api/chat`, fetch, ...options });
  }

  leave(chat) {
    return chat.stop();
  }
}

/** Where a stock socket goes to be live. */
export const livePath = (chat) => `/api/live?chat=${encodeURIComponent(chat)}`;

/** The `WebSocketChatTransport` of a module: the stock one, or that of `adkwire`, which brings a socket of its own. */
export class SocketWire {
  signal = new Signal();
  made = [];

  constructor({ WebSocketChatTransport, resilientWebSocket }, base, changed, lastOnly, path = "/api/chat/ws") {
    const { book, CountingSocket } = countingSocket(() => {
      this.signal.changed();
      changed();
    });
    this.book = book;
    const url = `${base.replace(/^http/, "ws")}${path}`;
    const webSocket = this.kept(resilientWebSocket?.({ WebSocket: CountingSocket }) ?? CountingSocket);
    this.transport = new WebSocketChatTransport({ url, webSocket, ...(lastOnly && lastOfMessages) });
  }

  get requests() {
    return this.book.requests;
  }

  get strange() {
    return this.book.strange;
  }

  /** The same class, of which we keep what the transport makes. */
  kept(Socket) {
    const { made } = this;
    return class extends Socket {
      constructor(...args) {
        super(...args);
        made.push(this);
      }
    };
  }

  lose() {
    this.drop();
    return this.gone();
  }

  leave(chat) {
    // In this order no abort frame gets out: it would stop the run.
    this.drop();
    return Promise.all([chat.stop(), this.gone()]);
  }

  async settled() {
    await patiently(this.signal.until("the end of its answers", () => this.requests.every(isOver)));
    for (const request of this.requests) giveUp(request, "never");
    // Politely: what the server has sent until then still comes.
    for (const socket of this.made.splice(0)) socket.close();
    await patiently(this.gone());
  }

  drop() {
    // One that comes back by itself has to be closed; any other one can just be lost.
    for (const socket of this.made.splice(0)) socket.terminate ? socket.terminate() : socket.close();
  }

  async gone() {
    await this.signal.until("the end of its sockets", () => this.book.open.size === 0);
    // The transport hears of it behind us.
    await new Promise(setImmediate);
  }
}
