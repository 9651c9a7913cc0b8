import { getToolName } from "ai";
import type { ReactElement } from "react";
import { Icon } from "../design/icon";
import type { ToolPart } from "../transport/tool-part";

function inWords(asked: ToolPart[]): string {
  const tools = [...new Set(asked.map(getToolName))].join(", ");
  return asked.length === 1 ? `Your answer is needed: ${tools}` : `${asked.length} answers are needed: ${tools}`;
}

function showFirst(): void {
  document.querySelector<HTMLElement>(".approval")?.focus();
}

/** Says that something waits for an answer, and leads there. The empty place is kept: only a change in it is announced. */
export function QuestionStatus({ asked }: { asked: ToolPart[] }): ReactElement {
  return (
    <div className="needed" role="status" aria-live="polite">
      {asked.length > 0 && (
        <button type="button" onClick={showFirst}><Icon name="ask" /><span>{inWords(asked)}</span></button>
      )}
    </div>
  );
}
