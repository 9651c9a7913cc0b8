import { BoundedMap } from "../common/bounded-map.js";
import type { Message } from "./message.js";

/** Messages whose answers are counted at the same time. */
const MAX_MESSAGES = 1000;

/** A count of how often in a row the same answers to the calls of a message were sent. */
class AnswersSent {
  readonly #sent = new BoundedMap<string, { answers: string; times: number }>(MAX_MESSAGES);

  /**
   * Count these answers and return how often they were sent in a row. Answers that differ from the last ones count as
   * 1.
   */
  count({ id }: Message, answers: string): number {
    const before = this.#sent.get(id);
    const times = before?.answers === answers ? before.times + 1 : 1;
    this.#sent.delete(id);
    this.#sent.set(id, { answers, times });
    return times;
  }

  /** Count the answers of a message from 0 again. */
  forget(message: Message | undefined): void {
    if (message) this.#sent.delete(message.id);
  }
}

/** The counts of this page: `sendAutomaticallyWhenSettled` counts, and a transport whose request failed forgets. */
export const answersSent: AnswersSent = new AnswersSent();
