// What the scenarios of approvals and of browser tools share.
import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { ChatPage } from "./chat-page.mjs";

export const TOKYO = { latitude: 35.68123, longitude: 139.76712, accuracy: 12 };

/** Opens the page in a mode, SSE by default. What it posts is counted there only: sockets have no requests. */
export async function open({ page, url, mode }) {
  const chat = await new ChatPage({ page, url, mode }).open();
  const posts = [];
  if (mode) return { chat, posts: null };
  page.on("request", (request) => {
    if (request.method() === "POST" && request.url().endsWith("/api/chat")) posts.push(request.postDataJSON());
  });
  return { chat, posts };
}

/** Whatever would be sent by itself leaves as soon as the page has drawn that it is idle. */
export async function assertQuiet(page, posts, count) {
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  if (posts) assert.equal(posts.length, count, `requests: ${JSON.stringify(posts, null, 1)}`);
}

export async function calls(chat, tool) {
  const { messages } = await chat.history();
  return messages.flatMap((message) => message.parts).filter((part) => part.type === `tool-${tool}`);
}

/** Resolves when the next live socket of a page has brought so many questions: it rejoins a turn from its beginning. */
function questionsAgain(page, count) {
  return new Promise((resolve) => page.once("websocket", (socket) => {
    let asked = 0;
    socket.on("framereceived", ({ payload }) => {
      asked += String(payload).includes('"tool-approval-request"') ? 1 : 0;
      if (asked === count) resolve();
    });
  }));
}

/** Reloads a page on which questions wait. */
export async function reloadWithQuestions(chat, count) {
  const asked = chat.mode === "Live" ? questionsAgain(chat.page, count) : undefined;
  await chat.page.reload();
  await asked;
  await chat.page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  await chat.cards.nth(count - 1).waitFor();
  await chat.idle();
}

/** The page shows after a reload what it showed before. */
export async function assertReloadsTheSame(chat) {
  const before = await chat.transcript();
  await chat.page.reload();
  await chat.answers.nth(before.text.length / 2 - 1).waitFor();
  await chat.idle();
  assert.deepEqual(await chat.transcript(), before);
}

export async function allowLocation(context) {
  await context.grantPermissions(["geolocation"]);
  await context.setGeolocation(TOKYO);
}

/** Counts how often the page asks the browser where it is. */
export async function countLocating(page) {
  await page.addInitScript(() => {
    const ask = Geolocation.prototype.getCurrentPosition;
    Geolocation.prototype.getCurrentPosition = function (...given) {
      sessionStorage.setItem("located", Number(sessionStorage.getItem("located")) + 1);
      return ask.apply(this, given);
    };
  });
  return () => page.evaluate(() => Number(sessionStorage.getItem("located")));
}

/** The user's own event stream, read beside the page. */
export class UserEvents {
  static async open(url) {
    const { body } = await fetch(new URL("api/events", url));
    return Object.assign(new UserEvents(), { lines: createInterface({ input: Readable.fromWeb(body) }) });
  }

  /** Reads on to an event about a chat, and closes the stream. */
  async hear(type, chat) {
    for await (const line of this.lines) {
      const event = line.startsWith("data:") ? JSON.parse(line.slice("data:".length)) : {};
      if (event.type === type && event.chat === chat) return;
    }
    throw new Error(`the event stream ended before ${type}`);
  }
}
