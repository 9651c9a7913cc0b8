/**
 * The text of what a user says in one turn, put together from transcripts. A transcript that is not final brings the
 * next words of an utterance or all of its words so far; the final one brings all of it. Utterances are joined by a
 * space, as in the history.
 */
export class TranscriptText {
  /** The utterances whose final transcript has come. */
  private finished = "";
  /** The words so far of the utterance that goes on. */
  private partial = "";

  add(text: string, final: boolean): void {
    if (!final) this.partial = text.startsWith(this.partial) ? text : this.partial + text;
    else {
      this.finished = joined(this.finished, text);
      this.partial = "";
    }
  }

  get text(): string {
    return joined(this.finished, this.partial);
  }
}

function joined(before: string, text: string): string {
  // Some models repeat all utterances of the turn in the last transcript.
  if (before === "" || (text.length > before.length && text.startsWith(before))) return text;
  return text.trim() === "" ? before : `${before} ${text.trimStart()}`;
}
