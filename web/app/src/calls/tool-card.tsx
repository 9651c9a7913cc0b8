import { getToolName } from "ai";
import { type ReactElement, useContext } from "react";
import { Icon } from "../design/icon";
import { type Strings, useStrings } from "../strings";
import type { ToolPart } from "../transport/tool-part";
import { ApprovalCard } from "./approval-card";
import type { ApprovalDetails } from "./approval-details";
import { CallContext, type Delivery } from "./call-context";
import { describeCall } from "./describe-call";
import { prettyJson } from "./json-text";
import "./calls.css";

interface ToolCardProps {
  part: ToolPart;
  running: boolean;
  /** Whether its message is the last one: older questions are no longer open. */
  current: boolean;
  details: ApprovalDetails;
}

function Field({ label, value }: { label: string; value: unknown }): ReactElement {
  return (
    <div className="field">
      <span>{label}</span>
      <pre tabIndex={0} aria-label={label}>{prettyJson(value)}</pre>
    </div>
  );
}

/** ADK's error for a call that was cancelled because the user stopped the answer. */
const STOPPED = "Invocation was aborted by client.";

function wasStopped(part: ToolPart): boolean {
  return part.state === "output-error" && part.errorText === STOPPED;
}

function isDenied(part: ToolPart): boolean {
  return part.state === "output-denied" || (part.state === "approval-responded" && !part.approval.approved);
}

type CallStrings = Strings["calls"];

/** Return the state of a call whose answer has been given here, and may not have reached the server. */
function answerInWords(t: CallStrings, part: ToolPart, delivery: Delivery): string {
  const answer = isDenied(part) ? t.denied : t.approved;
  return delivery === "held-up" ? t.heldUp(answer) : t.leaving(answer);
}

interface CallSituation {
  running: boolean;
  current: boolean;
  inBrowser: boolean;
  delivery: Delivery;
}

function stateInWords(t: CallStrings, part: ToolPart, { running, current, inBrowser, delivery }: CallSituation): string {
  if (wasStopped(part)) return t.stopped;
  if (part.state === "approval-responded" && running && delivery !== "arrived") return answerInWords(t, part, delivery);
  if (isDenied(part)) return t.denied;
  if (part.state === "output-available" && part.preliminary) return t.firstResults;
  if (part.state === "approval-requested") return t.notAnswered;
  if (part.state === "approval-responded" && !running) return current ? t.approvedWaits : t.approvedNotRun;
  if (part.state === "input-available" && inBrowser && current) return t.waitingForBrowser;
  const unfinished = part.state === "input-streaming" || part.state === "input-available";
  return unfinished && !running ? t.noResult : t.state[part.state];
}

function look(part: ToolPart): string {
  if (wasStopped(part)) return "stopped";
  return isDenied(part) ? "output-denied" : part.state;
}

/** A tool call: name, state, input and output. One that waits for approval is a question. */
export function ToolCard({ part, running, current, details }: ToolCardProps): ReactElement {
  const t = useStrings().calls;
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
        <Icon name="tool" /><code>{tool}</code>
        <span className="state">{stateInWords(t, part, { running, current, inBrowser, delivery })}</span>
      </summary>
      {inBrowser && part.state === "input-available" && <p className="words">{describeCall(t, tool, part.input, true)}</p>}
      <div className="fields">
        {part.input !== undefined && <Field label={t.input} value={part.input} />}
        {details.edited !== undefined && <Field label={t.changedTo} value={details.edited} />}
        {part.state === "output-available" && <Field label={t.output} value={part.output} />}
      </div>
      {part.state === "output-error" && !wasStopped(part) && <p className="failure">{part.errorText}</p>}
      {reason && <p className="failure">{t.reason(reason)}</p>}
      {part.state === "approval-requested" && <p className="words">{t.superseded}</p>}
    </details>
  );
}
