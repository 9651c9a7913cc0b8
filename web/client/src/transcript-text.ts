/**
 * What somebody is heard to say in one turn. A transcript that is not final is a piece, or all so far of what is being
 * said; the final one is all of it. Those that are final are joined by a space, as in the history.
 */
export class TranscriptText {
  private said = "";
  private saying = "";

  add(text: string, final: boolean): void {
    if (!final) this.saying = text.startsWith(this.saying) ? text : this.saying + text;
    else {
      this.said = joined(this.said, text);
      this.saying = "";
    }
  }

  get text(): string {
    return joined(this.said, this.saying);
  }
}

function joined(before: string, text: string): string {
  // All of the turn may come in one.
  if (before === "" || (text.length > before.length && text.startsWith(before))) return text;
  return text.trim() === "" ? before : `${before} ${text.trimStart()}`;
}
