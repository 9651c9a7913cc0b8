import { isToolUIPart, type UIMessage } from "ai";
import { lastStepCalls } from "./last-step-calls";
import type { ToolPart } from "./tool-part";

/** Whether an answer was given here that the server does not have yet. */
function isAhead(shown: ToolPart, known: ToolPart): boolean {
  if (known.state === "approval-requested") return shown.state === "approval-responded";
  return known.state === "input-available" && (shown.state === "output-available" || shown.state === "output-error");
}

/** The server's history, with the answers that still wait here for the rest of their step. */
export function keepAnswers(history: UIMessage[], shown: UIMessage | undefined): UIMessage[] {
  const last = history.at(-1);
  if (!last || last.id !== shown?.id) return history;
  const given = lastStepCalls(shown);
  const parts = last.parts.map((part) =>
    (isToolUIPart(part) && given.find((one) => one.toolCallId === part.toolCallId && isAhead(one, part))) || part);
  return [...history.slice(0, -1), { ...last, parts }];
}
