/** The rest of an answer cannot be had any more: load the chat's history to see what came of it. */
export class NotRecoveredError extends Error {
  override readonly name = "NotRecoveredError";
  readonly chatId: string;
  readonly run: string | undefined;

  constructor(chatId: string, run: string | undefined) {
    super("The rest of this answer was not recovered. Load the chat again to see it.");
    this.chatId = chatId;
    this.run = run;
  }
}
