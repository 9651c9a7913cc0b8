import { type DynamicToolUIPart, getToolName, type ToolUIPart } from "ai";
import type { ReactElement } from "react";
import { Icon } from "./icon";
import { prettyJson } from "./pretty-json";

type ToolPart = ToolUIPart | DynamicToolUIPart;

const STATES: Record<ToolPart["state"], string> = {
  "input-streaming": "being called",
  "input-available": "running",
  "approval-requested": "waiting for approval",
  "approval-responded": "answered, running",
  "output-available": "done",
  "output-error": "failed",
  "output-denied": "denied",
};

function Field({ label, value }: { label: string; value: unknown }): ReactElement {
  return (
    <div className="field">
      <span>{label}</span>
      <pre tabIndex={0} aria-label={label}>{prettyJson(value)}</pre>
    </div>
  );
}

/** ADK's words for a call that was cut short because the person stopped the answer. */
const STOPPED = "Invocation was aborted by client.";

function wasStopped(part: ToolPart): boolean {
  return part.state === "output-error" && part.errorText === STOPPED;
}

function stateInWords(part: ToolPart, running: boolean): string {
  if (wasStopped(part)) return "stopped";
  if (part.state === "output-available" && part.preliminary) return "running, first results";
  const unfinished = part.state === "input-streaming" || part.state === "input-available";
  return unfinished && !running ? "no result" : STATES[part.state];
}

/** A tool call: its name, how it stands in words, what went in and what came out. */
export function ToolCard({ part, running }: { part: ToolPart; running: boolean }): ReactElement {
  const denial = part.state === "output-denied" ? part.approval.reason : undefined;
  const stopped = wasStopped(part);
  return (
    <details className={`tool-card ${stopped ? "stopped" : part.state}`} open>
      <summary><Icon name="tool" /><code>{getToolName(part)}</code><span className="state">{stateInWords(part, running)}</span></summary>
      <div className="fields">
        {part.input !== undefined && <Field label="Input" value={part.input} />}
        {part.state === "output-available" && <Field label="Output" value={part.output} />}
      </div>
      {part.state === "output-error" && !stopped && <p className="failure">{part.errorText}</p>}
      {denial && <p className="failure">{denial}</p>}
    </details>
  );
}
