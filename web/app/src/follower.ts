import type { Chat } from "@ai-sdk/react";
import { NotRecoveredError } from "adkwire";
import type { UIMessage } from "ai";
import { isBusy } from "./is-busy";
import { isUpToDate } from "./is-up-to-date";
import { keepAnswers } from "./keep-answers";
import { lastStepCalls } from "./last-step-calls";
import { loadHistory } from "./load-history";
import type { NewsItem } from "./news-item";
import { resumeRun } from "./resume-run";
import { unheard } from "./unheard";

/** Keeps an idle chat where the server has it: what other tabs begin, ask and answer appears here by itself. */
export class Follower {
  /** Whether the calls for a browser are for this one: it began the run, or was opened when they already waited. */
  mine = true;
  readonly #chat: Chat<UIMessage>;
  readonly #onFail: (error: Error) => void;
  /** The run that is read here, or was read last. */
  #run: string | undefined;
  #behind = false;
  #following = false;

  constructor(chat: Chat<UIMessage>, onFail: (error: Error) => void) {
    this.#chat = chat;
    this.#onFail = onFail;
  }

  /** This page sends something: the next run that begins is its own. */
  sends(): void {
    this.mine = true;
    this.#run = undefined;
  }

  /** Takes an item of the news; null when some may have been missed. */
  hear(item: NewsItem | null): void {
    if (item === null) this.check();
    else if (item.chat === this.#chat.id && this.#isNew(item)) this.#fallBehind();
  }

  /** Looks whether the server has something that is not shown. What is being read tells that by itself. */
  check(): void {
    // What was not recovered is told, and loaded again when the person has read that.
    const isGone = this.#chat.error instanceof NotRecoveredError;
    if (this.#chat.messages.length > 0 && !this.#isOccupied && !isGone) this.#fallBehind();
  }

  /** Reads a run that was being written when the page was opened. */
  join(run: string): void {
    this.#run = run;
    void this.#follow(() => resumeRun(this.#chat));
  }

  /** Goes after what was heard of, once the chat is idle. */
  catchUp(): void {
    if (!this.#behind || this.#isOccupied) return;
    this.#behind = false;
    void this.#follow(() => this.#load());
  }

  get #isOccupied(): boolean {
    return this.#following || isBusy(this.#chat.status);
  }

  async #follow(work: () => Promise<void>): Promise<void> {
    this.#following = true;
    await work().catch(this.#onFail);
    this.#following = false;
    this.catchUp();
  }

  async #load(): Promise<void> {
    // Nobody asked for it, so nobody hears when it cannot be found out.
    if (await isUpToDate(this.#chat).catch(() => true)) return;
    const { messages, active } = await loadHistory(this.#chat.id);
    // What the server never heard stays for the person to send again.
    if (isBusy(this.#chat.status) || (!active && unheard(this.#chat, messages))) return;
    this.#chat.clearError();
    this.mine = false;
    this.#chat.messages = keepAnswers(messages, this.#chat.lastMessage);
    if (!active) return;
    this.#run = active.run;
    await resumeRun(this.#chat);
  }

  #fallBehind(): void {
    this.#behind = true;
    this.catchUp();
  }

  #isNew({ type, run, toolCallId }: NewsItem): boolean {
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
