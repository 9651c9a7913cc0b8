// Usage: node use-chat.mjs MODULE AI < pages.json
// Renders pages with the stock `useChat` of MODULE (an alias of `@ai-sdk/react`), one after the other, with no option at
// all. A page is {name, base, gate, texts}: in a DOM whose address is `base` each text is typed and submitted, and its end
// awaited. Prints what a person could see as one JSON line for each page.
// With `gate` the page does what the SDK's documentation shows for tools, with the helpers of the package AI: it sends by
// itself, tells the time when it is asked to, and has buttons for approvals. A text `press Yes` presses one.
import { readFileSync } from "node:fs";
import { Window } from "happy-dom";
import { PATIENCE } from "../patience.mjs";
import { countingFetch } from "./counting-fetch.mjs";

const [module, ai] = process.argv.slice(2);
const window = new Window();
const { document } = window;
// The DOM's names, but Node's own fetch and streams. Newer Nodes have a read-only navigator of their own.
for (const [name, value] of Object.entries({ window, document, navigator: window.navigator })) {
  Object.defineProperty(globalThis, name, { value, configurable: true });
}
const { createElement: h, useState } = await import("react");
const { createRoot } = await import("react-dom/client");
const { useChat } = await import(module);
const helpers = await import(ai);
const realFetch = globalThis.fetch;

let hook;

function forTools(executions) {
  return {
    sendAutomaticallyWhen: (state) =>
      helpers.lastAssistantMessageIsCompleteWithApprovalResponses(state) || helpers.lastAssistantMessageIsCompleteWithToolCalls(state),
    onToolCall: ({ toolCall: { toolCallId, toolName } }) => {
      if (toolName !== "clock") return;
      executions.push(toolCallId);
      void hook.addToolOutput({ tool: "clock", toolCallId, output: { time: "noon" } });
    },
  };
}

function Chat({ options }) {
  const [draft, setDraft] = useState("");
  hook = useChat(options);
  const submit = (event) => {
    event.preventDefault();
    hook.sendMessage({ text: draft });
    setDraft("");
  };
  return h(
    "main",
    null,
    h("output", null, hook.status),
    hook.error && h("strong", null, hook.error.message),
    h("ol", null, hook.messages.map((message) => h("li", { key: message.id, "data-role": message.role }, message.parts.map(show)))),
    h("form", { onSubmit: submit }, h("input", { value: draft, onChange: (event) => setDraft(event.target.value) })),
  );
}

function show(part, key) {
  if (part.type === "text") return h("p", { key }, part.text);
  if (part.state === "approval-requested") return h("fieldset", { key }, button(part, "Yes", true), button(part, "No", false));
  if (part.type.startsWith("tool-")) return h("code", { key }, `${part.type} ${part.state} ${JSON.stringify(part.output)}`);
  return null;
}

function button({ approval }, label, approved) {
  return h("button", { onClick: () => hook.addToolApprovalResponse({ id: approval.id, approved }) }, label);
}

const find = (selector) => document.querySelector(selector);
const lastSaid = () => find("li:last-child")?.textContent ?? "";

/** A page in a DOM that is empty again afterwards. */
class Page {
  executions = [];
  frames = [];
  watchers = new Set();

  constructor({ base, gate }) {
    this.base = base;
    window.happyDOM.setURL(`${base}/`);
    this.network = countingFetch();
    // The transport asks for `/api/chat`, as in a browser; the counting fetch gets the whole address and calls the real one.
    globalThis.fetch = (input, init) =>
      String(input).startsWith("/") ? this.network.run(new URL(input, base).href, init) : realFetch(input, init);
    this.container = document.createElement("div");
    document.body.append(this.container);
    this.observer = new window.MutationObserver(() => this.changed());
    this.observer.observe(this.container, { childList: true, subtree: true, characterData: true });
    this.root = createRoot(this.container);
    this.root.render(h(Chat, { options: gate ? forTools(this.executions) : undefined }));
  }

  changed() {
    this.frames.push({ status: find("output").textContent, text: lastSaid() });
    for (const wake of this.watchers) wake();
  }

  until(what, condition) {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`waited in vain for ${what}: ${this.container.innerHTML}`)), PATIENCE);
      const wake = () => condition() && (clearTimeout(late), this.watchers.delete(wake), resolve());
      this.watchers.add(wake);
      wake();
    });
  }

  /** React listens to the native setter and the bubbling event, as a keyboard causes them. */
  type(text) {
    const input = find("input");
    Object.getOwnPropertyDescriptor(window.HTMLInputElement.prototype, "value").set.call(input, text);
    input.dispatchEvent(new window.Event("input", { bubbles: true }));
  }

  /** A button is pressed, and the answer goes on to its words. */
  async press(label) {
    [...document.querySelectorAll("button")].find((one) => one.textContent === label).click();
    await this.until("the rest of the answer", () => find("output").textContent === "ready" && find("li:last-child p"));
  }

  async say(text, index) {
    this.type(text);
    await this.until("the typed text", () => find("input").value === text);
    find("form").dispatchEvent(new window.Event("submit", { bubbles: true, cancelable: true }));
    if (text.startsWith("hold ")) await this.release(text);
    const settled = () => ["ready", "error"].includes(find("output").textContent);
    const answers = () => document.querySelectorAll('[data-role="assistant"]').length;
    await this.until("the end of the answer", () => settled() && answers() > index);
  }

  /** A held answer of the scripted agent goes on when its beginning is on the screen: proof that the page streams. */
  async release(held) {
    await this.until("the beginning of the answer", () => lastSaid() === "One ");
    const message = { id: "release", role: "user", parts: [{ type: "text", text: held.replace("hold", "release") }] };
    const body = JSON.stringify({ id: `release-${hook.id}`, messages: [message], trigger: "submit-message" });
    const headers = { "content-type": "application/json" };
    await (await fetch(`${this.base}/api/chat`, { method: "POST", headers, body })).text();
  }

  /** Uses the page, and tells what a person could see. */
  async use(texts) {
    await this.until("the page", () => find("form"));
    for (const [index, text] of texts.entries()) {
      await (text.startsWith("press ") ? this.press(text.slice("press ".length)) : this.say(text, index));
    }
    await this.network.settled();
    const visible = [...document.querySelectorAll("li")].map((item) => ({ role: item.dataset.role, text: item.textContent }));
    const { id: chat, status, messages } = hook;
    const { frames, executions, network } = this;
    return { chat, status, error: hook.error?.message ?? null, visible, frames, messages, requests: network.requests, executions };
  }

  async close() {
    this.observer.disconnect();
    this.root.unmount();
    await new Promise(setImmediate);
    this.container.remove();
  }
}

for (const { name, texts, ...about } of JSON.parse(readFileSync(0, "utf8"))) {
  const page = new Page(about);
  const seen = await page.use(texts).catch(({ stack }) => ({ failure: stack }));
  process.stdout.write(`${JSON.stringify({ name, ...seen })}\n`);
  await page.close();
}
process.stdout.write("", () => process.exit(0));
