// What a person does on the page, by the names a person (or a screen reader) finds.
import assert from "node:assert/strict";
import { crc32, deflateSync } from "node:zlib";

export class ChatPage {
  constructor({ page, url, mode }) {
    this.page = page;
    this.url = url;
    this.mode = mode;
    this.box = page.getByRole("textbox", { name: "Message" });
    this.log = page.getByRole("log");
    this.send = page.getByRole("button", { name: "Send" });
    this.stop = page.getByRole("button", { name: "Stop", exact: true });
    this.alert = page.getByRole("alert");
    this.list = page.getByRole("navigation", { name: "Chats" });
    this.cards = this.log.getByRole("form");
    this.answers = page.getByRole("article", { name: "Agent" });
    this.interrupted = page.getByRole("status", { name: "Interruption" });
    this.liveState = page.locator(".live-state");
    this.dialog = page.getByRole("dialog");
  }

  async open(hash = "") {
    await this.page.goto(this.url + hash);
    await this.box.waitFor();
    if (this.mode) await this.switchTo(this.mode);
    return this;
  }

  /** Chooses a mode by a word in its name: SSE, WebSocket, Live, Gemini direct. */
  async switchTo(name) {
    await this.page.getByRole("radio", { name }).check();
  }

  async write(text) {
    await this.box.fill(text);
    await this.box.press("Enter");
  }

  /** Says something and waits until the answer is complete. */
  async ask(text) {
    const before = await this.answers.count();
    await this.write(text);
    await this.answers.nth(before).waitFor();
    await this.idle();
    return this.answers.nth(before);
  }

  /** Says something that makes the agent ask, and waits for its questions. */
  async askFor(text, questions = 1) {
    await this.write(text);
    await this.cards.nth(questions - 1).waitFor();
    await this.idle();
    return this.cards;
  }

  /** Approves or denies the first card that waits. */
  async approve() {
    await this.cards.first().getByRole("button", { name: "Approve" }).click();
  }

  async deny(reason = "") {
    await this.cards.first().getByRole("textbox").fill(reason);
    await this.cards.first().getByRole("button", { name: "Deny" }).click();
  }

  /** Waits until the last answer says something like this in words, and all is quiet. */
  async says(pattern) {
    await this.answers.last().locator(":scope > .text").filter({ hasText: pattern }).waitFor();
    await this.idle();
  }

  /** The settled card of a call. */
  call(tool, index = 0) {
    return this.log.locator("details.tool-card").filter({ has: this.page.locator("summary code", { hasText: tool }) }).nth(index);
  }

  async state(tool, index = 0) {
    return this.call(tool, index).locator(".state").innerText();
  }

  async idle() {
    await this.page.locator('[role=log][aria-busy="false"]').waitFor();
  }

  /** Waits until the last answer has counted this far. */
  async hears(number) {
    await this.answers.last().filter({ hasText: new RegExp(`(?<!\\d)${number}(?!\\d)`) }).waitFor();
  }

  /** Stops the answer that is being written. */
  async halt() {
    await this.stop.click();
    await this.send.waitFor();
    await this.idle();
  }

  /** The numbers that the last answer has counted. */
  async counted() {
    return numbers(await this.answers.last().locator(":scope > .text").last().innerText());
  }

  /** Lets an answer that counts go on from where it is, and stops it: nothing is missing, nothing twice. */
  async countsOn() {
    await this.hears((await this.counted()).length + 10);
    await this.halt();
    const counted = await this.counted();
    assert.deepEqual(counted, upTo(counted.length));
  }

  /** All that the transcript says, folded parts included, and its pictures. Clocks are left out, and how long calls took: only this tab knows. */
  async transcript() {
    return {
      text: await this.log.evaluate((node) => [...node.querySelectorAll("article")].map((part) => {
        const copy = part.cloneNode(true);
        for (const took of copy.querySelectorAll(".took")) took.remove();
        return copy.textContent.replace(/Expires in [\d:]+/g, "Expires");
      })),
      pictures: await this.log.locator("img").evaluateAll((nodes) => nodes.map((node) => node.src)),
    };
  }

  get chatId() {
    const id = /#\/c\/(.+)$/.exec(this.page.url())?.[1];
    assert.ok(id, `no chat in the address ${this.page.url()}`);
    return decodeURIComponent(id);
  }

  async history() {
    const response = await this.page.request.get(new URL(`api/chats/${this.chatId}`, this.url).href);
    assert.equal(response.status(), 200);
    return response.json();
  }

  async assertFits() {
    const wide = await this.page.evaluate(() =>
      [document.scrollingElement, document.querySelector(".transcript")]
        .filter((node) => node.scrollWidth > node.clientWidth)
        .map((node) => `${node.className || node.tagName}: ${node.scrollWidth} in ${node.clientWidth}`));
    assert.deepEqual(wide, [], "something is wider than the screen");
  }
}

/** The numbers in a text, in order. */
export function numbers(text) {
  return (text.match(/\d+/g) ?? []).map(Number);
}

export function upTo(last) {
  return Array.from({ length: last }, (_, index) => index + 1);
}

/** A PNG of one colour. */
export function png(width, height) {
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const out = Buffer.alloc(12 + data.length);
    out.writeUInt32BE(data.length, 0);
    body.copy(out, 4);
    out.writeUInt32BE(crc32(body), 8 + data.length);
    return out;
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  const rows = Buffer.concat(Array.from({ length: height }, () => Buffer.from([0, ...Array(width).fill([90, 80, 220]).flat()])));
  const signature = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);
  return Buffer.concat([signature, chunk("IHDR", header), chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))]);
}
