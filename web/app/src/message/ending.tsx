import type { UIMessage } from "ai";
import type { ReactElement } from "react";
import { useStrings } from "../strings";

/** How an answer ended that did not come to its end by itself. */
export interface Ending {
  how: "stopped" | "interrupted" | "failed";
  /** What went wrong, in the server's words; empty where it says nothing. */
  error: string;
}

const KINDS: readonly string[] = ["stopped", "interrupted", "failed"] satisfies Ending["how"][];

/** The metadata that says how an answer ended. A server may leave it out, and sends null when the answer goes on. */
interface EndingMetadata {
  ended?: unknown;
  error?: { text?: unknown } | null;
}

/** Return how an answer ended, as its metadata says; null when it says nothing. */
export function endingOf({ metadata }: UIMessage): Ending | null {
  const { ended, error } = (metadata ?? {}) as EndingMetadata;
  if (typeof ended !== "string" || !KINDS.includes(ended)) return null;
  return { how: ended as Ending["how"], error: typeof error?.text === "string" ? error.text : "" };
}

/** A line below an answer that says how it ended. */
export function EndingNote({ ending: { how, error } }: { ending: Ending }): ReactElement {
  const t = useStrings().message;
  if (how !== "failed") return <p className={`note ending ${how}`}>{t.ended[how]}</p>;
  return <p className="note ending failed"><strong>{t.ended.failed}</strong> {error}</p>;
}
