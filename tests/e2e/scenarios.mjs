// One exported function per scenario. It may return a pattern of the complaints that it provokes on purpose.
import assert from "node:assert/strict";
import { ChatPage, numbers, png, upTo } from "./chat-page.mjs";

export async function strict_policy_is_sent({ page, url }) {
  const response = await page.goto(url);
  const policy = response.headers()["content-security-policy"] ?? "";
  for (const rule of ["default-src 'self'", "object-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"]) {
    assert.ok(policy.includes(rule), `${rule} is missing in "${policy}"`);
  }
  assert.ok(!/script-src[^;]*unsafe/.test(policy), policy);
}

export async function says_what_answers({ page, url }) {
  await new ChatPage({ page, url }).open();
  await page.getByRole("banner").getByText("offline model").waitFor();
  assert.deepEqual((await page.getByRole("banner").innerText()).match(/demo|offline/g), ["demo", "offline"]);
  assert.equal(await page.getByRole("heading", { level: 1 }).innerText(), "adkwire");
}

export async function type_and_stream({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.write("count to 200");
  await chat.hears(3);
  await chat.stop.waitFor();
  const early = numbers(await chat.answers.last().innerText());
  await chat.idle();
  const all = numbers(await chat.answers.last().locator(".text").last().innerText());
  assert.deepEqual(all, upTo(200));
  assert.ok(early.length < all.length, "the answer came in one piece");
  assert.match(page.url(), /#\/c\/.+/);
}

export async function tool_card_with_output({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  for (const text of ["weather in Tokyo", "東京の天気"]) {
    const answer = await chat.ask(text);
    const card = answer.locator("details.tool-card");
    assert.equal(await card.locator("summary code").innerText(), "get_weather");
    assert.equal(await card.locator(".state").innerText(), "done");
    await card.locator("summary").click();
    const input = JSON.parse(await card.getByLabel("Input").innerText());
    const output = JSON.parse(await card.getByLabel("Output").innerText());
    assert.deepEqual(Object.keys(output).sort(), ["condition", "humidity", "location", "temperature"]);
    assert.ok(input.location);
    assert.ok((await answer.locator(".text").last().innerText()).includes(String(output.temperature)));
  }
}

export async function reasoning_folds_away({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  const answer = await chat.ask("think about rain");
  const thoughts = answer.locator("details.reasoning");
  await thoughts.getByText(/^Thought/).waitFor();
  assert.equal(await thoughts.locator(".text").isVisible(), false);
  await thoughts.locator("summary").click();
  assert.match(await thoughts.locator(".text").innerText(), /rain/i);
  assert.ok(await answer.locator(":scope > .text").innerText());
}

export async function sources_are_links({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  const links = (await chat.ask("cite")).getByRole("region", { name: "Sources" }).getByRole("link");
  assert.equal(await links.count(), 2);
  for (const link of await links.all()) {
    assert.match(await link.getAttribute("href"), /^https?:/);
    assert.equal(await link.getAttribute("target"), "_blank");
    assert.equal(await link.getAttribute("rel"), "noreferrer");
  }
}

export async function draw_a_cat_shows_an_image({ page, url, mode }) {
  const chat = await new ChatPage({ page, url, mode }).open();
  const picture = (await chat.ask("draw a cat")).getByRole("img");
  await picture.waitFor();
  assert.match(await picture.getAttribute("src"), /^data:image\/png/);
  assert.ok(await picture.evaluate(async (node) => (await node.decode(), node.naturalWidth > 0)));
}

export async function uploaded_image_is_described({ page, url, mode }) {
  const chat = await new ChatPage({ page, url, mode }).open();
  await page.getByLabel("Images", { exact: true }).setInputFiles({ name: "blue.png", mimeType: "image/png", buffer: png(30, 20) });
  await page.getByRole("img", { name: "blue.png" }).waitFor();
  await chat.send.click();
  await chat.answers.first().waitFor();
  await chat.idle();
  const answer = await chat.answers.first().innerText();
  assert.match(answer, /png/i);
  assert.match(answer, /30\D+20/);
  assert.equal(await chat.log.getByRole("img").count(), 1);
}

/** Lets the server's `/api/info` through with some of it changed. */
async function alterInfo(page, { limits, ...change }) {
  await page.route("**/api/info", async (route) => {
    const response = await route.fetch();
    const info = await response.json();
    await route.fulfill({ response, json: { ...info, ...change, limits: { ...info.limits, ...limits } } });
  });
}

async function openInformed(page, url) {
  const informed = page.waitForResponse("**/api/info");
  const chat = await new ChatPage({ page, url }).open();
  await (await informed).finished();
  await page.locator(".brand .model").waitFor();
  return chat;
}

export async function stranger_agent_is_introduced({ page, url }) {
  await alterInfo(page, { agent: "librarian", tools: [{ name: "find_book" }, { name: "lend_book" }] });
  await openInformed(page, url);
  const welcome = page.getByRole("region", { name: "Welcome" });
  assert.match(await welcome.innerText(), /librarian.*find_book, lend_book/s);
  assert.equal(await welcome.getByRole("button").count(), 0);
}

export async function only_the_new_message_is_sent({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.ask("draw a cat");
  const posted = page.waitForRequest((request) => request.method() === "POST" && request.url().endsWith("/api/chat"));
  await chat.ask("weather in Tokyo");
  const { id, message, ...rest } = (await posted).postDataJSON();
  assert.equal(id, chat.chatId);
  assert.deepEqual(message.parts, [{ type: "text", text: "weather in Tokyo" }]);
  assert.deepEqual(rest, { trigger: "submit-message" });
}

async function pick(page, ...files) {
  await page.getByLabel("Images", { exact: true })
    .setInputFiles(files.map(([name, buffer]) => ({ name, mimeType: "image/png", buffer })));
}

export async function images_beyond_the_limits_are_not_added({ page, url }) {
  await alterInfo(page, { limits: { partBytes: 5000, imagePixels: 500, parts: 3 } });
  const chat = await openInformed(page, url);
  const small = png(10, 10);
  await pick(page, ["heavy.png", Buffer.concat([small, Buffer.alloc(5000)])], ["wide.png", png(60, 10)],
    ["broken.png", Buffer.from("no image")], ["one.png", small]);
  await page.getByRole("img", { name: "one.png" }).waitFor();
  const notice = await chat.alert.innerText();
  for (const reason of ["heavy.png is larger than 0.005 MB.", "wide.png has more than 500 pixels.", "broken.png cannot be read"]) {
    assert.ok(notice.includes(reason), notice);
  }
  assert.equal(await page.getByRole("list", { name: "Images to send" }).getByRole("img").count(), 1);
  await pick(page, ["two.png", small], ["three.png", small]);
  await chat.alert.filter({ hasText: "at most 2" }).waitFor();
  assert.equal(await chat.send.isDisabled(), true);
  await page.getByRole("button", { name: "Remove two.png" }).click();
  await chat.alert.waitFor({ state: "detached" });
  await chat.send.click();
  await chat.answers.first().waitFor();
  await chat.idle();
  assert.equal((await chat.history()).messages[0].parts.filter((part) => part.type === "file").length, 2);
}

export async function images_beyond_the_body_are_not_sent({ page, url }) {
  await alterInfo(page, { limits: { bodyBytes: 3000 } });
  const chat = await openInformed(page, url);
  await pick(page, ...Array.from({ length: 6 }, (_, index) => [`${index}.png`, png(10, 10)]));
  await chat.alert.filter({ hasText: "at most 0.003 MB" }).waitFor();
  assert.equal(await chat.send.isDisabled(), true);
}

/** The page believes that more is taken than the server takes. */
const GENEROUS = { limits: { partBytes: 1e9, imagePixels: 1e9, parts: 1000 } };

async function assertTakenBack(chat, page, text) {
  await page.getByRole("img", { name: "heavy.png" }).and(page.locator(".previews img")).waitFor();
  assert.equal(await chat.box.inputValue(), text);
  assert.match(await chat.alert.innerText(), /at most 5000000 bytes/);
  assert.doesNotMatch(await chat.alert.innerText(), /log/);
  assert.equal(await chat.alert.getByRole("button").count(), 0);
}

export async function refused_message_comes_back_to_be_changed({ page, url }) {
  await alterInfo(page, GENEROUS);
  const chat = await openInformed(page, url);
  const heavy = Buffer.concat([png(10, 10), Buffer.alloc(5_000_000)]);
  for (const said of [[], ["weather in Rome"]]) {
    for (const text of said) await chat.ask(text);
    await pick(page, ["heavy.png", heavy]);
    await page.getByRole("img", { name: "heavy.png" }).waitFor();
    await chat.write("weather in Lyon");
    await assertTakenBack(chat, page, "weather in Lyon");
    assert.equal(await chat.log.getByRole("article").count(), 2 * said.length);
    await page.getByRole("button", { name: "Remove heavy.png" }).click();
  }
  await chat.box.press("Enter");
  await chat.answers.filter({ hasText: "Lyon" }).waitFor();
  await chat.idle();
  assert.equal(await chat.alert.count(), 0);
  assert.equal((await chat.history()).messages.length, 4);
  return /status of (413|404)/;
}

/** Asks for the last answer anew, which is refused. */
async function regenerateInVain(chat, page) {
  const error = { code: "unprocessable", message: "This answer cannot be made anew." };
  await page.route("**/api/chat", (route) => route.fulfill({ status: 422, json: { error } }), { times: 1 });
  await page.getByRole("button", { name: "Regenerate" }).click();
  await chat.alert.filter({ hasText: "cannot be made anew" }).waitFor();
}

export async function refused_regenerate_keeps_the_answer({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.ask("weather in Turin");
  await regenerateInVain(chat, page);
  await chat.answers.filter({ hasText: "Turin" }).waitFor();
  assert.equal(await chat.alert.getByRole("button").count(), 0);
  assert.equal(await chat.box.inputValue(), "");
  return /status of 422/;
}

/** Holds the next matching request until it is continued. The route stays: the last one that goes lets go of all. */
function hold(page, pattern) {
  let passing = false;
  return new Promise((resolve) => page.route(pattern, (route) => {
    if (passing) return route.continue();
    passing = true;
    resolve(route);
  }));
}

const LIST = /\/api\/chats$/;
const LOOK = /\/api\/chats\/[^?]+\?limit=1$/;
const HISTORY = /\/api\/chats\/[^?]+$/;

export async function refusal_is_dealt_with_before_news_are({ page, url }) {
  const news = hold(page, "**/api/events");
  const chat = await new ChatPage({ page, url }).open();
  await chat.ask("weather in Turin");
  const history = hold(page, HISTORY);
  await regenerateInVain(chat, page);
  const looks = [];
  page.on("request", (request) => LOOK.test(request.url()) && looks.push(request.url()));
  const [taken, listed] = [await history, page.waitForResponse(LIST)];
  await (await news).continue();
  await (await listed).finished();
  assert.deepEqual(looks, [], "news that come with the refusal would clear it");
  await taken.continue();
  await chat.answers.filter({ hasText: "Turin" }).waitFor();
  assert.equal(await chat.alert.count(), 1);
  return /status of 422/;
}

export async function refusal_stays_though_news_were_being_gone_after({ page, url }) {
  const [news, look] = [hold(page, "**/api/events"), hold(page, LOOK)];
  const chat = await new ChatPage({ page, url }).open();
  await chat.ask("weather in Turin");
  await (await news).continue();
  const looked = await look;
  await regenerateInVain(chat, page);
  await looked.continue();
  await chat.answers.filter({ hasText: "Turin" }).waitFor();
  assert.equal(await chat.alert.count(), 1);
  return /status of 422/;
}

export async function file_dropped_beside_the_box_does_not_open({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  const left = await chat.log.evaluate((node) => ["dragover", "drop"].filter((kind) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File(["x"], "cat.png", { type: "image/png" }));
    return node.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer }));
  }));
  assert.deepEqual(left, [], "the browser was left to open the file");
}

export async function right_to_left_text_runs_so({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  const direction = (locator) => locator.evaluate((node) => getComputedStyle(node).direction);
  await chat.box.fill("שלום עולם");
  assert.equal(await direction(chat.box), "rtl");
  await chat.box.press("Enter");
  await chat.answers.first().waitFor();
  await chat.idle();
  assert.equal(await direction(chat.log.getByRole("article", { name: "You" }).locator(".text")), "rtl");
  assert.equal(await chat.answers.first().locator(".text").first().getAttribute("dir"), "auto");
}

/** Paste and drop cannot be done by mouse and keys across programs, so the browser's own events are made. */
async function hand(page, kind, name, type, content) {
  await page.getByRole("textbox", { name: "Message" }).evaluate((node, [kind, name, type, bytes]) => {
    const data = new DataTransfer();
    data.items.add(new File([new Uint8Array(bytes)], name, { type }));
    const init = { bubbles: true, cancelable: true };
    node.dispatchEvent(kind === "paste"
      ? new ClipboardEvent("paste", { ...init, clipboardData: data })
      : new DragEvent("drop", { ...init, dataTransfer: data }));
  }, [kind, name, type, [...content]]);
}

export async function images_by_paste_and_drop({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await hand(page, "paste", "pasted.png", "image/png", png(8, 8));
  await hand(page, "drop", "dropped.png", "image/png", png(9, 9));
  await hand(page, "drop", "letter.pdf", "application/pdf", Buffer.from("%PDF"));
  await page.getByRole("img", { name: "pasted.png" }).waitFor();
  await chat.alert.filter({ hasText: "letter.pdf" }).waitFor();
  await page.getByRole("button", { name: "Remove pasted.png" }).click();
  await page.getByRole("img", { name: "pasted.png" }).waitFor({ state: "detached" });
  assert.equal(await page.getByRole("list", { name: "Images to send" }).getByRole("img").count(), 1);
}

async function stops(chat, page, act) {
  await chat.write("count to 1000");
  await chat.hears(5);
  const answered = page.waitForResponse((response) => response.url().endsWith("/stop"));
  await act();
  const response = await answered;
  assert.equal(response.status(), 202);
  assert.deepEqual(await response.json(), { stopped: true });
  await chat.send.waitFor();
  await chat.idle();
  const history = await chat.history();
  assert.equal(history.active, null);
  const kept = numbers(await chat.answers.last().locator(".text").last().innerText());
  assert.ok(kept.length >= 5 && kept.length < 1000, `kept ${kept.length}`);
  assert.deepEqual(kept, upTo(kept.length));
  const stored = history.messages.at(-1).parts.filter((part) => part.type === "text").map((part) => part.text);
  assert.deepEqual(numbers(stored.at(-1)), kept);
  await chat.answers.last().getByText("Stopped", { exact: true }).waitFor();
  assert.equal(await chat.alert.count(), 0);
}

export async function stop_in_mid_count_really_stops({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await stops(chat, page, () => chat.stop.click());
  assert.match(await (await chat.ask("weather in Paris")).innerText(), /Paris/);
}

export async function escape_stops_only_what_runs({ page, url, mode }) {
  const chat = await new ChatPage({ page, url, mode }).open();
  const asked = [];
  page.on("request", (request) => request.url().endsWith("/stop") && asked.push(request.url()));
  await page.keyboard.press("Escape");
  assert.equal(await chat.interrupted.innerText(), "");
  await stops(chat, page, async () => {
    await page.keyboard.press("Escape");
    await chat.interrupted.getByText("Interrupted", { exact: true }).waitFor();
  });
  await chat.interrupted.getByText("Interrupted").waitFor({ state: "detached" });
  await page.keyboard.press("Escape");
  assert.equal(await chat.interrupted.innerText(), "");
  await chat.ask("weather in Rome");
  assert.equal(asked.length, 1);
}

export async function writing_over_an_answer_stops_it_and_sends({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.write("count to 1000");
  await chat.hears(5);
  await chat.box.fill("weather in Rome");
  await page.getByText("Enter stops the answer and sends this").waitFor();
  await chat.box.press("Enter");
  await chat.says(/Rome/);
  assert.equal(await chat.box.inputValue(), "");
  const { messages } = await chat.history();
  assert.deepEqual(messages.map(({ role }) => role), ["user", "assistant", "user", "assistant"]);
  assert.ok(numbers(messages[1].parts.find((part) => part.type === "text").text).length < 1000, "it was not stopped");
}

export async function stop_works_after_a_resume({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.write("count to 1000");
  await chat.hears(5);
  await page.reload();
  await chat.hears(5);
  await chat.stop.click();
  await chat.send.waitFor();
  await chat.idle();
  assert.equal((await chat.history()).active, null);
  assert.ok(numbers(await chat.answers.last().locator(".text").last().innerText()).length < 1000);
}

export async function stop_that_overtakes_its_message({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  const early = page.waitForResponse((response) => response.url().endsWith("/stop"));
  await page.route("**/api/chat", async (route) => {
    assert.deepEqual(await (await early).json(), { stopped: false });
    await route.continue();
  });
  await chat.write("count to 1000");
  await chat.stop.click();
  await early;
  await chat.send.waitFor();
  await chat.idle();
  assert.equal((await chat.history()).active, null);
}

export async function reload_shows_the_same({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  for (const text of ["weather in Tokyo", "think about rain", "draw a cat", "cite", "count to 20"]) await chat.ask(text);
  const before = await chat.transcript();
  assert.equal(before.text.length, 10);
  assert.equal(before.pictures.length, 1);
  await page.reload();
  await chat.answers.nth(4).waitFor();
  await chat.idle();
  assert.deepEqual(await chat.transcript(), before);
}

export async function reload_in_mid_count_resumes({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.write("count to 1000");
  await chat.hears(5);
  const history = page.waitForResponse((response) => response.url().includes("/api/chats/"));
  const stream = page.waitForResponse((response) => response.url().includes("/stream?run="));
  await page.reload();
  assert.ok((await (await history).json()).active, "the run ended before the reload");
  assert.equal((await stream).status(), 200);
  await chat.hears(5);
  await chat.countsOn();
  assert.equal(await chat.answers.count(), 1);
}

export async function answer_that_ends_before_the_resume_is_shown({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.write("count to 1000");
  await chat.hears(5);
  await page.route("**/stream?run=*", async (route) => {
    await page.request.post(route.request().url().replace(/stream\?.*$/, "stop"), { data: {} });
    while ((await chat.history()).active);
    await route.continue();
  });
  const history = page.waitForResponse((response) => response.url().includes("/api/chats/"));
  const stream = page.waitForResponse((response) => response.url().includes("/stream?run="));
  await page.reload();
  assert.ok((await (await history).json()).active, "the run ended before the reload");
  assert.equal((await stream).status(), 200);
  await chat.hears(5);
  await chat.idle();
  assert.equal(await chat.answers.count(), 1);
  const [, { parts }] = (await chat.history()).messages;
  assert.deepEqual(await chat.counted(), numbers(parts.findLast((part) => part.type === "text").text));
}

export async function late_history_does_not_replace_the_open_chat({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.ask("weather in Quito");
  const slow = chat.chatId;
  await page.getByRole("button", { name: "New chat" }).click();
  await chat.ask("weather in Sofia");
  const held = new Promise((resolve) => page.route(`**/api/chats/${slow}?limit=*`, resolve, { times: 1 }));
  await chat.list.locator(`a[href="#/c/${slow}"]`).click();
  const route = await held;
  await page.goBack();
  await chat.answers.filter({ hasText: "Sofia" }).waitFor();
  const late = page.waitForResponse((response) => response.url().includes(slow));
  await route.continue();
  await (await late).finished();
  // A frame drawn after the answer arrived would show it.
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  assert.equal(await chat.answers.filter({ hasText: "Sofia" }).count(), 1);
  assert.equal(await chat.answers.filter({ hasText: "Quito" }).count(), 0);
}

export async function another_chat_while_one_runs({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.write("count to 150");
  await chat.hears(5);
  const counting = chat.chatId;
  await page.getByRole("button", { name: "New chat" }).click();
  await chat.ask("weather in Oslo");
  await chat.list.locator(`a[href="#/c/${counting}"]`).click();
  await chat.hears(150);
  await chat.idle();
  assert.deepEqual(numbers(await chat.answers.first().locator(".text").last().innerText()), upTo(150));
}

export async function error_shows_what_to_do_and_retry({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.write("fail");
  await chat.alert.waitFor();
  assert.ok((await chat.alert.locator("strong").innerText()).length > 10);
  assert.ok((await chat.alert.locator("p").innerText()).length > 10);
  const again = page.waitForRequest((request) => request.method() === "POST" && request.url().endsWith("/api/chat"));
  await chat.alert.getByRole("button", { name: "Retry" }).click();
  assert.equal((await again).postDataJSON().trigger, "regenerate-message");
  await chat.alert.waitFor();
  await chat.write("weather in Lima");
  await chat.answers.filter({ hasText: "Lima" }).waitFor();
  await chat.idle();
  assert.equal(await chat.alert.count(), 0);
  await chat.answers.first().getByText(/^(No answer|This answer failed\.)$/).waitFor();
}

export async function lost_message_is_sent_again_by_itself({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  // A request that is under way while a route is taken away is never answered: it stays, and lets through.
  let down = true;
  await page.route("**/api/chat", (route) => (down ? route.abort("connectionrefused") : route.continue()));
  await chat.write("weather in Cairo");
  await page.getByRole("status", { name: "Connection" }).getByText(/^Reconnecting/).waitFor();
  down = false;
  await chat.says(/Cairo/);
  assert.equal(await chat.alert.count(), 0);
  const { messages } = await chat.history();
  assert.deepEqual(messages.map((message) => message.role), ["user", "assistant"]);
  return /ERR_CONNECTION_REFUSED/;
}

export async function rate_limit_counts_down_to_the_retry({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  const error = { code: "too-many", message: "Too many messages." };
  await page.route("**/api/chat", (route) => route.fulfill({ status: 429, headers: { "retry-after": "2" }, json: { error } }), { times: 1 });
  await chat.write("weather in Quito");
  await chat.alert.getByRole("button", { name: /^Try again in \d s$/ }).waitFor();
  assert.equal(await chat.alert.getByRole("button").isDisabled(), true);
  await chat.alert.getByRole("button", { name: "Retry" }).click();
  await chat.says(/Quito/);
  assert.equal(await chat.alert.count(), 0);
  return /status of (429|404)/;
}

export async function refused_origin_says_what_to_do({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  const error = { code: "forbidden", message: "Pages of this origin may not call this server." };
  await page.route("**/api/chat", (route) => route.fulfill({ status: 403, json: { error } }));
  await chat.write("weather in Quito");
  await chat.alert.getByText(`--allow-origin ${new URL(url).origin}`).waitFor();
  return /status of (403|404)/;
}

/** Refuses matching requests as a server that fails does, until `page.unroute(pattern)`. */
async function refuse(page, pattern, method) {
  const error = { code: "internal", message: "The store is away.", hint: "Try again in a minute." };
  await page.route(pattern, (route) =>
    route.request().method() === method ? route.fulfill({ status: 500, json: { error } }) : route.continue());
}

const FAILED = /status of 500/;

export async function refused_history_says_why_and_retries({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.ask("weather in Bern");
  await refuse(page, "**/api/chats/*", "GET");
  await page.reload();
  await chat.alert.filter({ hasText: "The store is away" }).waitFor();
  await page.unroute("**/api/chats/*");
  await chat.alert.getByRole("button", { name: "Retry" }).click();
  await chat.answers.filter({ hasText: "Bern" }).waitFor();
  return FAILED;
}

export async function refused_message_is_sent_by_retry({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await refuse(page, "**/api/chat", "POST");
  await chat.write("weather in Accra");
  await chat.alert.filter({ hasText: "The store is away" }).waitFor();
  await page.unroute("**/api/chat");
  await chat.alert.getByRole("button", { name: "Retry" }).click();
  await chat.answers.filter({ hasText: "Accra" }).waitFor();
  await chat.idle();
  assert.deepEqual((await chat.history()).messages.map((message) => message.role), ["user", "assistant"]);
  // Whether the page looks for a chat that the server does not have yet is a matter of time.
  return /status of (500|404)/;
}

export async function refused_stop_says_so_and_the_answer_comes_back({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.write("count to 200");
  await chat.hears(5);
  await refuse(page, "**/stop", "POST");
  await chat.stop.click();
  await chat.alert.filter({ hasText: "did not stop" }).waitFor();
  await chat.send.waitFor();
  await chat.alert.getByRole("button", { name: "Retry" }).click();
  await chat.hears(200);
  await chat.idle();
  assert.equal(await chat.alert.count(), 0);
  assert.equal(await chat.answers.count(), 1);
  return FAILED;
}

export async function regenerate_replaces_the_last_answer({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.ask("weather in Tokyo");
  await chat.ask("count to 20");
  const before = await chat.transcript();
  await page.getByRole("button", { name: "Regenerate" }).click();
  await page.getByRole("button", { name: "Regenerate" }).waitFor({ state: "detached" });
  await chat.idle();
  assert.deepEqual(await chat.transcript(), before);
  assert.equal((await chat.history()).messages.length, 4);
}

export async function chat_list_opens_and_deletes({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.ask("weather in Madrid");
  const first = chat.chatId;
  await page.getByRole("button", { name: "New chat" }).click();
  await page.getByRole("heading", { name: "What can I do for you?" }).waitFor();
  await chat.ask("weather in Vienna");
  const second = chat.chatId;
  assert.notEqual(first, second);
  const row = (id) => chat.list.getByRole("listitem").filter({ has: page.locator(`a[href="#/c/${id}"]`) });
  await row(second).waitFor();
  await row(first).getByRole("link").click();
  await chat.answers.filter({ hasText: "Madrid" }).waitFor();
  assert.equal(await row(first).getByRole("link").getAttribute("aria-current"), "page");
  await row(first).getByRole("button", { name: /^Delete/ }).click();
  await row(first).getByRole("button", { name: /^Really delete/ }).click();
  await row(first).waitFor({ state: "detached" });
  await page.getByRole("heading", { name: "What can I do for you?" }).waitFor();
  assert.equal(await row(second).count(), 1);
  assert.equal((await page.request.get(new URL(`api/chats/${first}`, url).href)).status(), 404);
}

export async function refused_delete_says_so_and_focus_stays({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.ask("weather in Dakar");
  const link = page.locator(`a[href="#/c/${chat.chatId}"]`);
  await page.getByRole("button", { name: "New chat" }).click();
  const remove = async () => {
    const row = chat.list.getByRole("listitem").filter({ has: link });
    await row.getByRole("button", { name: /^Delete/ }).press("Enter");
    await row.getByRole("button", { name: /^Really delete/ }).press("Enter");
  };
  await refuse(page, "**/api/chats/*", "DELETE");
  await remove();
  await chat.alert.filter({ hasText: "The store is away" }).waitFor();
  assert.equal(await link.count(), 1);
  await page.unroute("**/api/chats/*");
  await remove();
  await link.waitFor({ state: "detached" });
  await chat.alert.waitFor({ state: "detached" });
  assert.equal((await focused(page)).name, "New chat");
  return FAILED;
}

export async function older_chats_stay_listed({ page, url }) {
  const row = (id) => ({ id, title: id, updatedAt: "2026-01-01T00:00:00Z", active: false, pending: 0 });
  await page.route(/\/api\/chats(\?.*)?$/, (route) => route.fulfill({
    json: route.request().url().endsWith("?before=c") ? { chats: [row("old")] } : { chats: [row("new")], next: "c" },
  }));
  const chat = await new ChatPage({ page, url }).open();
  await chat.list.getByRole("button", { name: "Older chats" }).click();
  await chat.list.getByRole("link", { name: "old" }).click();
  const listed = page.waitForResponse((response) => response.url().endsWith("?before=c"));
  await page.evaluate(() => window.dispatchEvent(new Event("focus")));
  await listed;
  await chat.list.getByRole("link", { name: "old" }).and(page.locator("[aria-current=page]")).waitFor();
  assert.deepEqual(await chat.list.getByRole("link").allInnerTexts(), ["new", "old"]);
  assert.equal(await chat.list.getByRole("button", { name: "Older chats" }).count(), 0);
  return /status of 404/;
}

export async function broken_address_opens_a_page({ page, url }) {
  await new ChatPage({ page, url }).open("#token=100%");
  assert.equal(page.url(), url);
  await page.goto(`${url}#/c/50%`);
  await page.getByRole("main").waitFor();
  return /status of 4\d\d/;
}

export async function phone_has_no_sideways_scroll({ page, url }) {
  await page.setViewportSize({ width: 360, height: 740 });
  const chat = await new ChatPage({ page, url }).open();
  await chat.assertFits();
  for (const text of ["weather in Tokyo", "draw a cat", "cite", "x".repeat(300)]) await chat.ask(text);
  await chat.write("fail");
  await chat.alert.waitFor();
  await chat.assertFits();
  assert.equal(await chat.list.isVisible(), false);
  await page.getByRole("button", { name: "Chats" }).click();
  await chat.list.getByRole("link").first().waitFor();
  await chat.assertFits();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Chats", expanded: false }).waitFor();
}

export async function newest_line_stays_in_view({ page, url }) {
  await page.setViewportSize({ width: 700, height: 500 });
  const chat = await new ChatPage({ page, url }).open();
  const below = () => page.locator(".transcript").evaluate((node) => node.scrollHeight - node.scrollTop - node.clientHeight);
  const atBottom = () => page.waitForFunction(() => {
    const node = document.querySelector(".transcript");
    return node.scrollHeight > node.clientHeight && node.scrollHeight - node.scrollTop - node.clientHeight < 2;
  });
  await chat.ask("weather in Tokyo");
  await chat.ask("draw a cat");
  await atBottom();
  await chat.write("count to 150");
  await chat.hears(5);
  await page.locator(".transcript").hover();
  await page.mouse.wheel(0, -300);
  await page.waitForFunction(() => document.querySelector(".transcript").scrollTop + 200 <
    document.querySelector(".transcript").scrollHeight - document.querySelector(".transcript").clientHeight);
  await chat.hears(150);
  await chat.idle();
  assert.ok(await below() > 100, "the page scrolled away from what was being read");
  await chat.ask("cite");
  await atBottom();
}

/** Where the focus is: what a screen reader would say, and whether an eye can see it. */
function focused(page) {
  return page.evaluate(() => {
    const node = document.activeElement;
    if (node === document.body) return { name: "(the page)", seen: true };
    const ring = getComputedStyle(node.closest(".bar") && node.tagName === "TEXTAREA" ? node.closest(".bar") : node);
    return {
      name: node.getAttribute("aria-label") ?? node.textContent.trim(),
      seen: ring.outlineStyle !== "none" || ring.boxShadow !== "none",
    };
  });
}

async function tabTo(page, name) {
  const passed = [];
  while (passed.length < 200) {
    await page.keyboard.press("Tab");
    const here = await focused(page);
    passed.push(here.name);
    assert.ok(here.name, "a control without a name");
    assert.ok(here.seen, `no focus ring on ${here.name}`);
    if (here.name === name) return passed;
  }
  return assert.fail(`${name} is not reached by Tab: ${passed.join(", ")}`);
}

export async function keyboard_only({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  assert.equal((await focused(page)).name, "Message");
  await page.keyboard.type("first");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("weather in Tokyo");
  assert.equal(await chat.box.inputValue(), "first\nweather in Tokyo");
  await page.keyboard.press("Enter");
  await chat.answers.first().waitFor();
  await chat.idle();
  assert.equal(await chat.box.inputValue(), "");
  assert.equal((await focused(page)).name, "Message");
  await page.evaluate(() => document.activeElement.blur());
  await tabTo(page, "New chat");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "What can I do for you?" }).waitFor();
  await page.evaluate(() => document.activeElement.blur());
  const passed = await tabTo(page, "draw a cat");
  assert.ok(passed.some((name) => /^Switch to (dark|light) theme$/.test(name)));
  await page.keyboard.press("Enter");
  await chat.answers.first().getByRole("img").waitFor();
}

export async function theme_follows_the_system_until_chosen({ page, url }) {
  const scheme = () => page.evaluate(() => getComputedStyle(document.documentElement).colorScheme);
  await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
  await new ChatPage({ page, url }).open();
  assert.equal(await scheme(), "dark");
  const toDark = page.getByRole("button", { name: "Switch to dark theme" });
  const toLight = page.getByRole("button", { name: "Switch to light theme" });
  await page.emulateMedia({ colorScheme: "light" });
  await toDark.waitFor();
  assert.equal(await scheme(), "light");
  await page.emulateMedia({ colorScheme: "dark" });
  await toLight.click();
  await page.reload();
  await toDark.waitFor();
  assert.equal(await scheme(), "light");
  await toDark.click();
  await page.emulateMedia({ colorScheme: "light" });
  await toDark.waitFor();
  assert.equal(await scheme(), "light");
}

export async function hostile_and_unknown_parts_stay_text({ page, url }) {
  const parts = [
    { type: "text", text: "<img src=https://evil.example/x onerror=alert(1)>\nsecond line" },
    { type: "hologram", depth: 3 },
    { type: "data-mystery", data: { nested: [1, 2] } },
    { type: "file", mediaType: "image/png", url: "https://evil.example/track.png" },
    { type: "source-url", sourceId: "s1", url: "javascript:alert(1)", title: "click me" },
    { type: "dynamic-tool", toolName: "rm", toolCallId: "c1", state: "output-error", input: {}, errorText: "not allowed" },
  ];
  await page.route("**/api/chats/hostile*", (route) => route.fulfill({
    json: { id: "hostile", title: "hostile", active: null, pending: [], messages: [{ id: "m1", role: "assistant", parts }] },
  }));
  const chat = await new ChatPage({ page, url }).open("#/c/hostile");
  const answer = chat.answers.first();
  assert.equal(await answer.locator(".text").first().innerText(), parts[0].text);
  assert.equal(await answer.locator("img").count(), 0);
  assert.equal(await answer.getByRole("link", { name: "click me" }).count(), 0);
  await answer.getByText("click me").waitFor();
  await answer.getByText("not allowed").waitFor();
  for (const name of ["hologram", "data-mystery"]) {
    const card = answer.locator("details.json-card").filter({ hasText: name });
    assert.equal(await card.locator("pre").isVisible(), false);
    await card.locator("summary").click();
    assert.equal(JSON.parse(await card.locator("pre").innerText()).type, name);
  }
}

export async function stopped_call_and_empty_answer_are_named({ page, url }) {
  const stopped = {
    type: "dynamic-tool", toolName: "dig", toolCallId: "c1", state: "output-error", input: {},
    errorText: "Invocation was aborted by client.",
  };
  const messages = [
    { id: "m1", role: "assistant", parts: [stopped] },
    { id: "m2", role: "assistant", parts: [{ type: "step-start" }, { type: "text", text: "" }] },
  ];
  await page.route("**/api/chats/ended*", (route) => route.fulfill({
    json: { id: "ended", title: "ended", active: null, pending: [], messages },
  }));
  const chat = await new ChatPage({ page, url }).open("#/c/ended");
  const card = chat.answers.first().locator(".tool-card");
  assert.equal(await card.locator(".state").innerText(), "stopped");
  assert.equal(await card.locator(".failure").count(), 0);
  const colour = (locator) => locator.evaluate((node) => getComputedStyle(node).color);
  assert.equal(await colour(card.locator(".state")), await colour(card.locator(".icon")));
  await chat.answers.last().getByText("No answer", { exact: true }).waitFor();
}
