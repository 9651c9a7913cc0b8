// Usage: node use-chat.mjs MODULE BASE_URL [--gate=AI] TEXT...
// Renders a page with the stock `useChat` of MODULE (an alias of `@ai-sdk/react`), with no option at all, in a DOM whose
// address is BASE_URL. Types each TEXT, submits, waits for the end, and prints what a person could see as one JSON line.
// With --gate the page does what the SDK's documentation shows for tools, with the helpers of the package AI: it sends by
// itself, tells the time when it is asked to, and has buttons for approvals. A TEXT `press Yes` presses one.
import { Window } from "happy-dom";
import { countingFetch } from "./counting-fetch.mjs";

const [module, base, ...rest] = process.argv.slice(2);
const gate = rest[0]?.startsWith("--gate=") ? rest.shift().slice("--gate=".length) : null;
const texts = rest;
const PATIENCE = 30_000;

const window = new Window({ url: `${base}/` });
const network = countingFetch();
// The DOM's names, but Node's own fetch and streams. Newer Nodes have a read-only navigator of their own.
for (const [name, value] of Object.entries({ window, document: window.document, navigator: window.navigator })) {
  Object.defineProperty(globalThis, name, { value, configurable: true });
}
const { createElement: h, useState } = await import("react");
const { createRoot } = await import("react-dom/client");
const { useChat } = await import(module);
globalThis.fetch = withAddress(globalThis.fetch);

/** The transport asks for `/api/chat`, as in a browser; the counting fetch gets the whole address and calls the real one. */
function withAddress(real) {
  return (input, init) => (String(input).startsWith("/") ? network.run(new URL(input, base).href, init) : real(input, init));
}

let hook;
const executions = [];
const options = gate ? forTools(await import(gate)) : undefined;

function forTools(ai) {
  return {
    sendAutomaticallyWhen: (state) =>
      ai.lastAssistantMessageIsCompleteWithApprovalResponses(state) || ai.lastAssistantMessageIsCompleteWithToolCalls(state),
    onToolCall: ({ toolCall: { toolCallId, toolName } }) => {
      if (toolName !== "clock") return;
      executions.push(toolCallId);
      void hook.addToolOutput({ tool: "clock", toolCallId, output: { time: "noon" } });
    },
  };
}

function Page() {
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

const { document } = window;
const find = (selector) => document.querySelector(selector);
const lastSaid = () => find("li:last-child")?.textContent ?? "";
const root = document.createElement("div");
document.body.append(root);
const frames = [];
const watchers = new Set();

new window.MutationObserver(() => {
  frames.push({ status: find("output").textContent, text: lastSaid() });
  for (const wake of watchers) wake();
}).observe(root, { childList: true, subtree: true, characterData: true });

function until(what, condition) {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`waited in vain for ${what}: ${root.innerHTML}`)), PATIENCE);
    const wake = () => condition() && (clearTimeout(late), watchers.delete(wake), resolve());
    watchers.add(wake);
    wake();
  });
}

/** React listens to the native setter and the bubbling event, as a keyboard causes them. */
function type(text) {
  const input = find("input");
  Object.getOwnPropertyDescriptor(window.HTMLInputElement.prototype, "value").set.call(input, text);
  input.dispatchEvent(new window.Event("input", { bubbles: true }));
}

/** A button is pressed, and the answer goes on to its words. */
async function press(label) {
  [...document.querySelectorAll("button")].find((one) => one.textContent === label).click();
  await until("the rest of the answer", () => find("output").textContent === "ready" && find("li:last-child p"));
}

async function turn(text, index) {
  type(text);
  await until("the typed text", () => find("input").value === text);
  find("form").dispatchEvent(new window.Event("submit", { bubbles: true, cancelable: true }));
  if (text.startsWith("hold ")) await release(text);
  const settled = () => ["ready", "error"].includes(find("output").textContent);
  await until("the end of the answer", () => settled() && document.querySelectorAll('[data-role="assistant"]').length > index);
}

/** A held answer of the scripted agent goes on when its beginning is on the screen: proof that the page streams. */
async function release(held) {
  await until("the beginning of the answer", () => lastSaid() === "One ");
  const message = { id: "release", role: "user", parts: [{ type: "text", text: held.replace("hold", "release") }] };
  const body = JSON.stringify({ id: `release-${hook.id}`, messages: [message], trigger: "submit-message" });
  const response = await fetch(`${base}/api/chat`, { method: "POST", headers: { "content-type": "application/json" }, body });
  await response.text();
}

createRoot(root).render(h(Page));
await until("the page", () => find("form"));
for (const [index, text] of texts.entries()) await (text.startsWith("press ") ? press(text.slice(6)) : turn(text, index));
await network.settled();

const visible = [...document.querySelectorAll("li")].map((item) => ({ role: item.dataset.role, text: item.textContent }));
const { requests } = network;
const { id: chat, status, messages } = hook;
const seen = { chat, status, error: hook.error?.message ?? null, visible, frames, messages, requests, executions };
process.stdout.write(`${JSON.stringify(seen)}\n`, () => process.exit(0));
