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
  /** What is done, one thing after the other, and how many of them are left. */
  #work = Promise.resolve();
  #left = 0;

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
    this.#follow(() => resumeRun(this.#chat, run));
  }

  /** Puts the chat right after an error. Whatever is heard of meanwhile waits: it would clear the error unread. */
  recover(work: () => Promise<void>): void {
    this.#follow(work);
  }

  /** Goes after what was heard of, once the chat is idle. */
  catchUp(): void {
    if (!this.#behind || this.#isOccupied) return;
    this.#behind = false;
    this.#follow(() => this.#load());
  }

  get #isOccupied(): boolean {
    return this.#left > 0 || isBusy(this.#chat.status);
  }

  #follow(work: () => Promise<void>): void {
    this.#left += 1;
    this.#work = this.#work.then(work).catch(this.#onFail).then(() => {
      this.#left -= 1;
      this.catchUp();
    });
  }

  async #load(): Promise<void> {
    const { error } = this.#chat;
    // Nobody asked for it, so nobody hears when it cannot be found out.
    if (await isUpToDate(this.#chat).catch(() => true)) return;
    const { messages, active } = await loadHistory(this.#chat.id);
    // What began or failed meanwhile is newer than this.
    if (isBusy(this.#chat.status) || this.#chat.error !== error) return;
    // What the server never heard stays for the person to send again.
    if (!active && unheard(this.#chat, messages)) return;
    this.#chat.clearError();
    this.mine = false;
    this.#chat.messages = keepAnswers(messages, this.#chat.lastMessage);
    if (!active) return;
    this.#run = active.run;
    await resumeRun(this.#chat, active.run);
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
