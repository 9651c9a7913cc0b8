import { getToolName } from "ai";
import type { ReactElement } from "react";
import { Icon } from "../design/icon";
import { type Strings, useStrings } from "../strings";
import type { ToolPart } from "../transport/tool-part";

function inWords(t: Strings["calls"], asked: ToolPart[]): string {
  const tools = [...new Set(asked.map(getToolName))].join(", ");
  return asked.length === 1 ? t.answerNeeded(tools) : t.answersNeeded(asked.length, tools);
}

function showFirst(): void {
  document.querySelector<HTMLElement>(".approval")?.focus();
}

/** A button that leads to the first open question. The empty element stays: screen readers announce changes in it. */
export function QuestionStatus({ asked }: { asked: ToolPart[] }): ReactElement {
  const t = useStrings().calls;
  return (
    <div className="needed" role="status" aria-live="polite">
      {asked.length > 0 && (
        <button type="button" onClick={showFirst}><Icon name="ask" /><span>{inWords(t, asked)}</span></button>
      )}
    </div>
  );
}
