/**
 * The run that the history of a chat named as active. A reconnect requests its message by name, because the run may
 * have ended since the history was loaded.
 */
export class ActiveRun {
  private name: string | undefined;

  constructor(name: string | undefined) {
    this.name = name;
  }

  /** Return the run that a reconnect requests: the one that `resumeStream({ body: { run } })` names, else this one. */
  runFor(body: object | undefined): string | undefined {
    const { run } = (body ?? {}) as { run?: unknown };
    return typeof run === "string" && run !== "" ? run : this.name;
  }

  /** Forget the run: its message was read, is not kept any more, or a newer message was sent. */
  forget(): void {
    this.name = undefined;
  }
}
