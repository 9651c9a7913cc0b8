import { BoundedMap } from "./bounded-map.js";

/** Chats whose unread run is kept. A transport usually serves one. */
const MAX_CHATS = 100;

/**
 * The runs whose messages a page has not read to the end. A reconnect requests such a message by the name of its run,
 * because the run may have ended meanwhile: without a name the server returns only a run that is active.
 */
export class UnreadRuns {
  private readonly lost = new BoundedMap<string, string>(MAX_CHATS);

  /** `loaded` is the run that the history named as active. */
  constructor(private loaded: string | undefined) {}

  /** Return the run that a reconnect requests: the one that `resumeStream({ body: { run } })` names, else a kept one. */
  runFor(chatId: string, body: object | undefined): string | undefined {
    const { run } = (body ?? {}) as { run?: unknown };
    return typeof run === "string" && run !== "" ? run : (this.lost.get(chatId) ?? this.loaded);
  }

  /** Keep the run of a message whose reading has failed, if the run is known. */
  keep(chatId: string, run: string | undefined): void {
    if (run !== undefined) this.lost.set(chatId, run);
  }

  /** Forget the run of a chat: its message was read, is not kept any more, or a newer message was sent. */
  forget(chatId: string): void {
    this.lost.delete(chatId);
    this.loaded = undefined;
  }
}
