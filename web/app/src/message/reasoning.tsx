import type { ReasoningUIPart } from "ai";
import { type ReactElement, useEffect, useState } from "react";
import { type Strings, useStrings } from "../strings";
import { Markdown } from "./markdown/markdown";

const KEY = "adkwire-thinking";

/** Parts whose times are kept, in all chats of this browser. */
const KEPT = 200;

/** When the page first and last saw the model think, in milliseconds since 1970. The server does not keep it. */
type Times = Record<string, { began: number; ended: number }>;

function readTimes(): Times {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "{}") as Times;
  } catch {
    return {};
  }
}

function noteThinking(id: string): void {
  const times = readTimes();
  const now = Date.now();
  times[id] = { began: times[id]?.began ?? now, ended: now };
  localStorage.setItem(KEY, JSON.stringify(Object.fromEntries(Object.entries(times).slice(-KEPT))));
}

function secondsOf(id: string): number | undefined {
  const times = readTimes()[id];
  return times && Math.round((times.ended - times.began) / 1000);
}

/** Return how many seconds the model thought, if this browser saw it. */
function useThinkingTime(id: string, thinking: boolean): number | undefined {
  const [seconds, setSeconds] = useState(() => secondsOf(id));
  useEffect(() => {
    if (!thinking) return;
    noteThinking(id);
    return () => {
      noteThinking(id);
      setSeconds(secondsOf(id));
    };
  }, [id, thinking]);
  return seconds;
}

function inWords(t: Strings["message"], thinking: boolean, seconds: number | undefined): string {
  if (thinking) return t.thinking;
  return seconds === undefined ? t.thoughts : t.thoughtFor(seconds);
}

interface ReasoningProps {
  /** Names the part among those of all chats. */
  id: string;
  part: ReasoningUIPart;
  running: boolean;
}

/** The thoughts of the model: open while it thinks, then folded to a line that says for how long. */
export function Reasoning({ id, part, running }: ReasoningProps): ReactElement {
  const t = useStrings().message;
  const thinking = running && part.state === "streaming";
  const seconds = useThinkingTime(id, thinking);
  return (
    <details className="reasoning" open={thinking}>
      <summary>{inWords(t, thinking, seconds)}</summary>
      <Markdown text={part.text} streaming={thinking} />
    </details>
  );
}
