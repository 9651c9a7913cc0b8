import type { Chat } from "@ai-sdk/react";
import { NotRecoveredError } from "adkwire";
import { isToolUIPart, type UIMessage } from "ai";
import { lastStepCalls, type ToolPart } from "../transport/tool-part";
import { isBusy } from "./chat-status";
import { loadHistory, undelivered } from "./history";
import type { ChatEvent } from "./read-events";
import { resumeRun } from "./recover";

/** A JSON replacer that sorts keys: the stream and the history write them in different orders. */
function sortKeys(_key: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)));
}

function isSameJson(one: unknown, other: unknown): boolean {
  return JSON.stringify(one, sortKeys) === JSON.stringify(other, sortKeys);
}

/** Return whether this chat shows the newest message that the server has, and no run is active. */
async function isUpToDate(chat: Chat<UIMessage>): Promise<boolean> {
  const { messages, active } = await loadHistory(chat.id, 1);
  const [newest, shown] = [messages.at(-1), chat.lastMessage];
  return !active && newest?.id === shown?.id && isSameJson(newest?.parts, shown?.parts);
}

/** Return whether a call was answered in this tab and the server does not know it yet. */
function isAhead(shown: ToolPart, known: ToolPart): boolean {
  if (known.state === "approval-requested") return shown.state === "approval-responded";
  return known.state === "input-available" && (shown.state === "output-available" || shown.state === "output-error");
}

/** Return the server's history with the answers that were given in this tab and have not been sent yet. */
function keepAnswers(history: UIMessage[], shown: UIMessage | undefined): UIMessage[] {
  const last = history.at(-1);
  if (!last || last.id !== shown?.id) return history;
  const given = lastStepCalls(shown);
  const parts = last.parts.map((part) =>
    (isToolUIPart(part) && given.find((one) => one.toolCallId === part.toolCallId && isAhead(one, part))) || part);
  return [...history.slice(0, -1), { ...last, parts }];
}

interface FollowerOwner {
  onFail: (error: Error) => void;
  /** Return whether a live connection brings everything that happens in the chat. */
  isLive: () => boolean;
}

/** Keeps an idle chat equal to the server's: shows the runs, questions and answers of other tabs. */
export class Follower {
  /** True when this tab runs the browser calls: it started the run, or was opened while they were pending. */
  runsBrowserCalls = true;
  /** True when the chat reads a run that it has joined: it may be the live one of another window. */
  readsJoinedRun = false;
  readonly #chat: Chat<UIMessage>;
  readonly #owner: FollowerOwner;
  /** The run that this tab reads, or read last. */
  #run: string | undefined;
  /** True when the server may have something newer. */
  #behind = false;
  /** Loads and resumes, one after the other, and how many of them have not ended. */
  #work = Promise.resolve();
  #unfinished = 0;

  constructor(chat: Chat<UIMessage>, owner: FollowerOwner) {
    this.#chat = chat;
    this.#owner = owner;
  }

  /** Note that this tab sends a message or answers: the next run is its own. */
  onSend(): void {
    this.runsBrowserCalls = true;
    this.readsJoinedRun = false;
    this.#run = undefined;
  }

  /** Note that the chat shows a live turn that this tab has not asked for: another window runs its browser calls. */
  onTurn(): void {
    this.runsBrowserCalls = false;
  }

  /** Take an event of the user's chats; null when events may have been missed. */
  onEvent(event: ChatEvent | null): void {
    if (this.#owner.isLive()) return;
    if (event === null) this.check();
    else if (event.chat === this.#chat.id && this.#isNew(event)) this.#fallBehind();
  }

  /** Ask the server whether it has something newer, unless a run is being read. */
  check(): void {
    // This error stays until the person has read it and asks to load the chat again.
    const isGone = this.#chat.error instanceof NotRecoveredError;
    if (this.#chat.messages.length > 0 && !this.#isOccupied && !isGone) this.#fallBehind();
  }

  /** Forget the run that was read last: it may go on without this tab. */
  letGo(): void {
    this.#run = undefined;
    this.#fallBehind();
  }

  /** Connect to the live conversation, and read the turn that is active, if one is. */
  joinLive(): void {
    if (this.#isOccupied) return;
    this.#behind = this.#chat.messages.length > 0;
    this.#follow(() => this.#chat.resumeStream());
  }

  /** Wait with events until some work of the chat's owner is done. */
  async hold(work: Promise<void>): Promise<void> {
    this.#unfinished += 1;
    await work.catch(this.#owner.onFail);
    this.#unfinished -= 1;
    this.catchUp();
  }

  /** Read a run that was active when the page was opened. */
  join(run: string): void {
    this.#run = run;
    this.readsJoinedRun = true;
    this.#follow(() => resumeRun(this.#chat, run));
  }

  /** Repair the chat after an error. Events wait meanwhile: loading the history would clear the error unread. */
  recover(work: () => Promise<void>): void {
    this.#follow(work);
  }

  /** Load what is newer on the server, once the chat is idle. */
  catchUp(): void {
    if (!this.#behind || this.#isOccupied) return;
    this.#behind = false;
    this.#follow(() => this.#load());
  }

  get #isOccupied(): boolean {
    return this.#unfinished > 0 || isBusy(this.#chat.status);
  }

  #follow(work: () => Promise<void>): void {
    this.#unfinished += 1;
    this.#work = this.#work.then(work).catch(this.#owner.onFail).then(() => {
      this.#unfinished -= 1;
      this.catchUp();
    });
  }

  async #load(): Promise<void> {
    const { error } = this.#chat;
    // A background check that fails is not worth an error.
    if (await isUpToDate(this.#chat).catch(() => true)) return;
    const { messages, active } = await loadHistory(this.#chat.id);
    // A run that started or failed meanwhile is newer than this history.
    if (isBusy(this.#chat.status) || this.#chat.error !== error) return;
    // An undelivered message stays on the screen to be sent again.
    if (!active && undelivered(this.#chat, messages)) return;
    this.#chat.clearError();
    this.runsBrowserCalls = false;
    this.#chat.messages = keepAnswers(messages, this.#chat.lastMessage);
    if (!active) return;
    this.#run = active.run;
    this.readsJoinedRun = true;
    await resumeRun(this.#chat, active.run);
  }

  #fallBehind(): void {
    this.#behind = true;
    this.catchUp();
  }

  #isNew({ type, run, toolCallId }: ChatEvent): boolean {
    const busy = isBusy(this.#chat.status);
    switch (type) {
      case "run-started":
        if (busy) this.#run ??= run;
        return run !== this.#run;
      case "run-ended":
        return run !== this.#run;
      case "call-asked":
      case "call-settled":
        return !busy && this.#isAsked(toolCallId) !== (type === "call-asked");
      case "chat-updated":
        return false;
    }
  }

  #isAsked(call: string | undefined): boolean {
    return lastStepCalls(this.#chat.lastMessage).some(({ toolCallId, state }) =>
      toolCallId === call && (state === "approval-requested" || state === "input-available"));
  }
}
