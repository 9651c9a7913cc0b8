import { getToolName } from "ai";
import { type ReactElement, useContext } from "react";
import { Icon } from "../design/icon";
import type { ToolPart } from "../transport/tool-part";
import { ApprovalCard } from "./approval-card";
import type { ApprovalDetails } from "./approval-details";
import { CallContext, type Delivery } from "./call-context";
import { describeCall } from "./describe-call";
import { prettyJson } from "./json-text";

interface ToolCardProps {
  part: ToolPart;
  running: boolean;
  /** Whether the message it belongs to is the newest: older questions are no longer open. */
  current: boolean;
  details: ApprovalDetails;
}

const STATES: Record<ToolPart["state"], string> = {
  "input-streaming": "being called",
  "input-available": "running",
  "approval-requested": "waiting for approval",
  "approval-responded": "approved, running",
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

function isDenied(part: ToolPart): boolean {
  return part.state === "output-denied" || (part.state === "approval-responded" && !part.approval.approved);
}

/** Whether it is known to the server nobody can say before it has answered. */
const UNDER_WAY: Record<Delivery, string> = { leaving: ", sending", "held-up": ", waiting for the server", arrived: "" };

function answerInWords(part: ToolPart, delivery: Delivery): string {
  return `${isDenied(part) ? "denied" : "approved"}${UNDER_WAY[delivery]}`;
}

function stateInWords(part: ToolPart, running: boolean, current: boolean, inBrowser: boolean, delivery: Delivery): string {
  if (wasStopped(part)) return "stopped";
  if (part.state === "approval-responded" && running && delivery !== "arrived") return answerInWords(part, delivery);
  if (isDenied(part)) return "denied";
  if (part.state === "output-available" && part.preliminary) return "running, first results";
  if (part.state === "approval-requested") return "not answered";
  if (part.state === "approval-responded" && !running) return current ? "approved, waits for the rest" : "approved, not run";
  if (part.state === "input-available" && inBrowser && current) return "waiting for your browser";
  const unfinished = part.state === "input-streaming" || part.state === "input-available";
  return unfinished && !running ? "no result" : STATES[part.state];
}

function look(part: ToolPart): string {
  if (wasStopped(part)) return "stopped";
  return isDenied(part) ? "output-denied" : part.state;
}

/** A tool call: its name, how it stands in words, what went in and what came out. One that asks is a question. */
export function ToolCard({ part, running, current, details }: ToolCardProps): ReactElement {
  const { browserTools, delivery } = useContext(CallContext);
  const tool = getToolName(part);
  const inBrowser = browserTools.has(tool);
  if (part.state === "approval-requested" && current) {
    return <ApprovalCard part={part} approvalId={part.approval.id} details={details} />;
  }
  const reason = isDenied(part) ? part.approval?.reason : undefined;
  return (
    <details className={`tool-card ${look(part)}`} open>
      <summary>
        <Icon name="tool" /><code>{tool}</code><span className="state">{stateInWords(part, running, current, inBrowser, delivery)}</span>
      </summary>
      {inBrowser && part.state === "input-available" && <p className="words">The agent {describeCall(tool, part.input, true)}.</p>}
      <div className="fields">
        {part.input !== undefined && <Field label="Input" value={part.input} />}
        {details.edited !== undefined && <Field label="Changed to" value={details.edited} />}
        {part.state === "output-available" && <Field label="Output" value={part.output} />}
      </div>
      {part.state === "output-error" && !wasStopped(part) && <p className="failure">{part.errorText}</p>}
      {reason && <p className="failure">Reason: {reason}</p>}
      {part.state === "approval-requested" && <p className="words">You wrote something else instead of answering, so it was not run.</p>}
    </details>
  );
}
