// What a person does in a front-end starter of `examples/`. All of them have the same names for the same things.
import assert from "node:assert/strict";
import { numbers, upTo } from "./chat-page.mjs";

class StarterPage {
  constructor({ page, url }) {
    this.page = page;
    this.url = url;
    this.box = page.getByRole("textbox", { name: "Message" });
    this.log = page.getByRole("log");
    this.answers = this.log.getByRole("article", { name: "assistant" });
    this.alert = page.getByRole("main").getByRole("alert"); // Next.js has an alert of its own
  }

  async open() {
    await this.page.goto(this.url);
    await this.idle();
    return this;
  }

  async idle() {
    // An empty log has no size: it is there, not visible.
    await this.page.locator('[role=log][aria-busy="false"]').waitFor({ state: "attached" });
  }

  async write(text) {
    await this.box.fill(text);
    await this.box.press("Enter");
  }

  /** Clicks a button that must be there once. */
  async click(name) {
    await this.page.getByRole("button", { name, exact: true }).click();
  }

  /** Waits until the last answer says something like this. */
  async says(pattern) {
    await this.answers.last().filter({ hasText: pattern }).waitFor();
  }

  /** Waits until the last answer has counted this far. */
  async hears(number) {
    await this.says(new RegExp(`(?<!\\d)${number}(?!\\d)`));
  }

  /** The parts of one type in the history that the server keeps. */
  async history(type) {
    const id = new URL(this.page.url()).hash.slice(1) || new URL(this.page.url()).pathname.slice(1);
    const response = await this.page.request.get(new URL(`/api/chats/${id}`, this.url).href);
    assert.equal(response.status(), 200);
    const { messages } = await response.json();
    return messages.flatMap((message) => message.parts).filter((part) => part.type === type);
  }
}

export async function starter_asks_and_runs_browser_tools({ page, url }) {
  const chat = await new StarterPage({ page, url }).open();
  await chat.write("weather in Tokyo");
  await chat.says(/In Tokyo it is .* humidity\./);
  await chat.idle();

  await chat.write("pay 50 to Hanako");
  await chat.page.getByRole("button", { name: "Approve" }).waitFor();
  await chat.idle();
  await page.reload();
  await chat.click("Approve");
  await chat.says(/I paid 50 USD to Hanako/);
  await chat.idle();

  await chat.write("pay 60 to Taro");
  await chat.click("Deny");
  await chat.says(/You refused, so I did not make the payment/);
  await chat.idle();

  await chat.write("what time is it");
  await chat.says(/It is .* where you are/);
  await chat.idle();

  await chat.write("play track 1");
  await chat.click("Approve");
  await chat.says(/I could not change the music.*This page has no music/);
  await chat.idle();

  assert.deepEqual((await chat.history("tool-process_payment")).map((part) => part.state), ["output-available", "output-denied"]);
  assert.deepEqual((await chat.history("tool-get_timezone")).map((part) => part.state), ["output-available"]);
  assert.deepEqual((await chat.history("tool-change_bgm")).map((part) => part.state), ["output-error"]);
  assert.equal(await page.getByRole("button", { name: "Approve" }).count(), 0);
  assert.equal(await chat.alert.count(), 0);
}

/** A device that finds out where it is only after the page was loaded again. */
export async function starter_runs_a_browser_tool_that_waited({ page, url }) {
  await page.addInitScript(() => {
    Geolocation.prototype.getCurrentPosition = (found) => {
      window.isAsked = true;
      if (sessionStorage.isFound) found({ coords: { latitude: 35.68, longitude: 139.76, accuracy: 20 } });
    };
  });
  const chat = await new StarterPage({ page, url }).open();
  await chat.write("where am I");
  await chat.click("Approve");
  await page.waitForFunction(() => window.isAsked);
  await chat.idle();
  await page.evaluate(() => { sessionStorage.isFound = "yes"; });
  await page.reload();
  await chat.says(/You are at latitude 35\.68, longitude 139\.76/);
  await chat.idle();
  assert.deepEqual((await chat.history("tool-get_location")).map((part) => part.state), ["output-available"]);
}

/** An answer goes on while its page is reloaded and while another chat is shown, until somebody stops it. */
export async function starter_keeps_an_answer({ page, url }) {
  const chat = await new StarterPage({ page, url }).open();
  await chat.write("count to 1000");
  await chat.hears(5);
  await page.reload();
  await chat.hears(15);
  await page.getByRole("link", { name: "New chat" }).click();
  await chat.answers.last().waitFor({ state: "detached" });
  await page.goBack();
  await chat.answers.last().waitFor();
  await chat.hears(numbers(await chat.answers.last().innerText()).length + 10);
  await chat.click("Stop");
  await chat.idle();
  const { text } = (await chat.history("text")).at(-1);
  const counted = numbers(text);
  assert.ok(counted.length < 1000, "the agent was not stopped");
  assert.deepEqual(counted, upTo(counted.length));
  // assistant-ui shows text letter by letter.
  await chat.says(new RegExp(`^\\s*${text.trim()}\\s*$`));
}

export async function starter_takes_a_message_after_an_error({ page, url }) {
  const chat = await new StarterPage({ page, url }).open();
  await chat.write("fail");
  await chat.alert.waitFor();
  await chat.idle();
  await chat.write("count to 3");
  await chat.hears(3);
  await chat.idle();
  assert.equal(await chat.alert.count(), 0);
}
