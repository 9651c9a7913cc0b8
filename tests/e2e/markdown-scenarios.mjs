// The page against an agent that says what it is told: how the model's Markdown is shown. See echo_agent.py.
import assert from "node:assert/strict";
import { assertAccessible } from "./axe.mjs";
import { ChatPage } from "./chat-page.mjs";
import { hostileMarkdown } from "./hostile-markdown.mjs";

const SAMPLE = `# Plan

Some **bold**, *leaning* and ~~struck~~ words, \`code\`, AT&amp;T, 1 &lt; 2
and a second line.

1. one
2. two
   - nested

- [x] done
- [ ] open

| Left | Right |
|:-----|------:|
| a | **1** |

> quoted

\`\`\`python
def answer() -> int:
    return 42
\`\`\`

---
End.`;

export async function markdown_becomes_elements({ page, context, url }) {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const chat = await new ChatPage({ page, url }).open();
  const answer = await chat.ask(SAMPLE);
  await answer.getByRole("heading", { name: "Plan" }).waitFor();
  for (const [name, text] of [["strong", "bold"], ["em", "leaning"], ["del", "struck"], ["p > code", "code"], ["blockquote", "quoted"]]) {
    assert.equal(await answer.locator(name).first().innerText(), text);
  }
  assert.match(await answer.locator("p").first().innerText(), /AT&T, 1 < 2\nand a second line\./);
  assert.deepEqual(await answer.locator("ol > li").allInnerTexts(), ["one", "two\nnested"]);
  assert.deepEqual(await answer.getByRole("listitem").getByRole("img").evaluateAll((nodes) =>
    nodes.map((node) => node.ariaLabel)), ["done", "to do"]);
  assert.deepEqual(await answer.getByRole("columnheader").allInnerTexts(), ["Left", "Right"]);
  assert.equal(await answer.getByRole("cell", { name: "1" }).evaluate((node) => getComputedStyle(node).textAlign), "right");
  await answer.locator("pre .hljs-keyword").filter({ hasText: "def" }).waitFor();
  await answer.getByRole("button", { name: "Copy code" }).click();
  await answer.getByRole("button", { name: "Copied" }).waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "def answer() -> int:\n    return 42");
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await assertAccessible(page, colorScheme);
  }
  const shown = await chat.transcript();
  await page.reload();
  await answer.getByRole("heading", { name: "Plan" }).waitFor();
  assert.deepEqual(await chat.transcript(), shown);
  await page.setViewportSize({ width: 360, height: 740 });
  await chat.assertFits();
}

export async function what_the_person_writes_stays_as_it_is({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await chat.ask("**not bold** <b>x</b>\n- no list");
  const mine = page.getByRole("article", { name: "You" });
  assert.equal(await mine.innerText(), "**not bold** <b>x</b>\n- no list");
  assert.equal(await mine.locator("strong, b, li").count(), 0);
}

export async function emphasis_does_not_flicker_while_it_streams({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  await page.evaluate(() => {
    window.signs = [];
    new MutationObserver(() => {
      for (const node of document.querySelectorAll(".markdown")) if (/\*\*|`/.test(node.innerText)) window.signs.push(node.innerText);
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
  });
  const answer = await chat.ask(`So **${"bold words ".repeat(200)}and \`${"code".repeat(50)}\` in them**.`);
  assert.match(await answer.locator("strong").innerText(), /^bold words .* in them$/);
  assert.deepEqual(await page.evaluate(() => window.signs), []);
}

export async function link_defined_below_is_resolved({ page, url }) {
  const chat = await new ChatPage({ page, url }).open();
  const answer = await chat.ask(`See [the docs][1].\n\n${"More words. ".repeat(50)}\n\n[1]: https://elsewhere.example/docs`);
  assert.equal(await answer.getByRole("link", { name: "the docs" }).getAttribute("href"), "https://elsewhere.example/docs");
}

const ELSEWHERE = "https://elsewhere.example/path?q=1";

export async function links_ask_before_they_leave({ page, context, url }) {
  await context.route("https://elsewhere.example/**", (route) => route.fulfill({ contentType: "text/html", body: "there" }));
  const chat = await new ChatPage({ page, url }).open();
  const link = (await chat.ask(`Look [over there](${ELSEWHERE}).`)).getByRole("link", { name: "over there" });
  const dialog = page.getByRole("dialog", { name: "Open this link?" });
  for (const button of ["left", "middle"]) {
    for (const modifiers of [[], ["Control"]]) {
      await link.click({ button, modifiers });
      await dialog.getByText(ELSEWHERE).waitFor();
      assert.equal(await dialog.locator("strong").innerText(), "elsewhere.example");
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "detached" });
    }
  }
  assert.equal(context.pages().filter((each) => each.url().includes("elsewhere")).length, 0);
  await link.press("Enter");
  const opened = context.waitForEvent("page");
  await dialog.getByRole("link", { name: "Open" }).click();
  assert.equal(await (await opened).evaluate(() => window.opener), null);
  await dialog.waitFor({ state: "detached" });
  return /^external request: https:\/\/elsewhere\.example/;
}

export async function hostile_markdown_runs_and_loads_nothing({ page, context, url }) {
  const dialogs = [];
  context.on("dialog", (dialog) => {
    dialogs.push(dialog.message());
    return dialog.dismiss();
  });
  const strings = hostileMarkdown();
  assert.ok(strings.length >= 100, `${strings.length} strings`);
  const messages = strings.map((text, index) => ({
    id: `m${index}`, role: "assistant", parts: [{ type: "reasoning", text, state: "done" }, { type: "text", text }],
  }));
  await page.route("**/api/chats/hostile*", (route) => route.fulfill({
    json: { id: "hostile", title: "hostile", active: null, pending: [], messages },
  }));
  const chat = await new ChatPage({ page, url }).open("#/c/hostile");
  await chat.answers.nth(strings.length - 1).waitFor();
  await page.locator("details.reasoning").evaluateAll((nodes) => nodes.forEach((node) => { node.open = true; }));
  assert.equal(await chat.log.locator("script, iframe, object, embed, style, link, form, video, audio, base, meta").count(), 0);
  assert.deepEqual(await chat.log.locator("img:not([src^='data:image/'])").evaluateAll((nodes) => nodes.map((node) => node.src)), []);
  const bad = await chat.log.evaluate((log) => [...log.querySelectorAll("*")].flatMap((node) => [...node.attributes]
    .filter(({ name, value }) => name.startsWith("on") || (name === "href" && !/^(https?|mailto):/.test(value)))
    .map(({ name, value }) => `${node.tagName} ${name}=${value}`)));
  assert.deepEqual(bad, []);
  // What is streamed goes through the same eyes.
  for (const text of strings.slice(0, 12)) await chat.ask(text);
  assert.deepEqual(dialogs, []);
  assert.equal(page.url().startsWith(url), true);
}

/** Counts how often React renders messages above the last one: it gives an element new props whenever it does. */
async function countRenders(page) {
  await page.addInitScript(() => {
    window.propsOf = (node) => node[Object.keys(node).find((key) => key.startsWith("__reactProps$"))];
    const seen = new Map();
    window.renders = 0;
    window.__REACT_DEVTOOLS_GLOBAL_HOOK__ = {
      supportsFiber: true, renderers: new Map(), inject: () => 1, checkDCE() {}, onCommitFiberUnmount() {},
      onCommitFiberRoot() {
        const nodes = [...document.querySelectorAll("article")];
        for (const node of nodes) {
          if (node !== nodes.at(-1) && seen.has(node) && seen.get(node) !== propsOf(node)) window.renders += 1;
          seen.set(node, propsOf(node));
        }
      },
    };
  });
}

export async function long_answer_streams_without_rendering_the_others({ page, url }) {
  await countRenders(page);
  const chat = await new ChatPage({ page, url }).open();
  for (const text of ["first", "second", "**third**"]) await chat.ask(text);
  const paragraph = "\n\nThis paragraph is one of very many that are said, with **bold** words and `code` in it.";
  const count = Math.ceil(200_000 / paragraph.length);
  await chat.write(`repeat ${count}\n${paragraph}`);
  await chat.answers.nth(3).locator(".markdown > p").nth(5).waitFor();
  const before = await page.evaluate(() => {
    window.paragraph = document.querySelector("article:last-of-type .markdown > p");
    window.props = window.propsOf(window.paragraph);
    return window.renders;
  });
  await chat.answers.nth(3).locator(".markdown > p").nth(count - 1).waitFor();
  const after = await page.evaluate(() => window.renders);
  await chat.idle();
  assert.equal(after - before, 0, "earlier messages were rendered again");
  assert.equal(await page.evaluate(() => window.paragraph.isConnected), true);
  assert.equal(await page.evaluate(() => window.propsOf(window.paragraph) === window.props), true, "an earlier block was rendered again");
  assert.equal(await chat.answers.nth(3).locator(".markdown > p").count(), count);
  assert.ok(before > 0, "nothing is counted");
}
