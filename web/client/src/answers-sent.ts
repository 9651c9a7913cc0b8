import type { Message } from "./message.js";

const MAX_MESSAGES = 1000;

/** How often the same answers to the calls of a message left in a row. */
class AnswersSent {
  readonly #sent = new Map<string, { answers: string; times: number }>();

  /** Counts one time more; answers that differ from the last ones begin anew. */
  count({ id }: Message, answers: string): number {
    const before = this.#sent.get(id);
    const times = before?.answers === answers ? before.times + 1 : 1;
    this.#sent.delete(id);
    this.#sent.set(id, { answers, times });
    const [oldest] = this.#sent.keys();
    if (this.#sent.size > MAX_MESSAGES && oldest !== undefined) this.#sent.delete(oldest);
    return times;
  }

  forget(message: Message | undefined): void {
    if (message) this.#sent.delete(message.id);
  }
}

/** One for the page: a chat asks whether to send, its transport knows whether that failed. */
export const answersSent: AnswersSent = new AnswersSent();
