import { getToolName } from "ai";
import { type ReactElement, useContext, useEffect, useRef, useState } from "react";
import { Icon, type IconName } from "../design/icon";
import { type Strings, useStrings } from "../strings";
import type { ToolPart } from "../transport/tool-part";
import { AnswerRefused } from "./answers";
import { ApprovalCard } from "./approval-card";
import type { ApprovalDetails } from "./approval-details";
import { CallContext, type Delivery } from "./call-context";
import { describeCall } from "./describe-call";
import { inShort, prettyJson } from "./json-text";
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

/** The server's error for a call that was cut off while it ran. */
const UNKNOWN = "This call did not finish; its outcome is unknown.";

function isUnknown(part: ToolPart): boolean {
  return part.state === "output-error" && part.errorText === UNKNOWN;
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
  if (isUnknown(part)) return t.unknown;
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
  if (isUnknown(part)) return "unknown";
  return isDenied(part) ? "output-denied" : part.state;
}

const ICONS: Record<string, IconName> = {
  "output-available": "check", "output-error": "close", "output-denied": "close", stopped: "stop", unknown: "ask",
};

/** What a call is about, or why it did not do it, in one line. */
function Words({ part, inBrowser }: { part: ToolPart; inBrowser: boolean }): ReactElement | null {
  const t = useStrings().calls;
  if (part.state === "output-error" && !wasStopped(part)) return <span className="what failure">{part.errorText}</span>;
  const reason = isDenied(part) ? part.approval?.reason : undefined;
  if (reason) return <span className="what failure">{t.reason(reason)}</span>;
  if (inBrowser && part.state === "input-available") return <span className="what">{describeCall(t, getToolName(part), part.input, true)}</span>;
  if (part.state === "approval-requested") return <span className="what">{t.superseded}</span>;
  const words = inShort(part.input);
  return words ? <span className="what">{words}</span> : null;
}

/** Return the seconds that a call took, if this page has seen it begin and end. */
function useSeconds({ state }: ToolPart, running: boolean): number | null {
  const began = useRef<number | null>(null);
  const [seconds, setSeconds] = useState<number | null>(null);
  useEffect(() => {
    if (state === "approval-responded") began.current = performance.now();
    else if (state === "input-available" && running) began.current ??= performance.now();
    else if ((state === "output-available" || state === "output-error") && began.current !== null) {
      setSeconds((performance.now() - began.current) / 1000);
      began.current = null;
    }
  }, [state, running]);
  return seconds;
}

/** Return whether a person may run a call again. The server is asked about calls of unknown outcome only. */
function useRetryable(part: ToolPart, asks: boolean): boolean {
  const { isRetryable } = useContext(CallContext);
  const [retryable, setRetryable] = useState(false);
  useEffect(() => {
    setRetryable(false);
    // Without an answer nothing is offered.
    if (asks) isRetryable(part).then(setRetryable, () => undefined);
  }, [asks, isRetryable, part]);
  return asks && retryable;
}

/** Lets a person run a call again whose outcome is unknown, where the tool's rule allows it. */
function RunAgain({ part }: { part: ToolPart }): ReactElement {
  const t = useStrings().calls;
  const { answerable, onRetry } = useContext(CallContext);
  const [failure, setFailure] = useState("");
  const retry = (): void => {
    setFailure("");
    onRetry(part).catch((error: unknown) => setFailure(error instanceof AnswerRefused ? error.message : t.notSent));
  };
  return (
    <div className="again">
      <button type="button" disabled={!answerable} onClick={retry}><Icon name="retry" />{t.runAgain}</button>
      <p className="words">{t.aboutRunAgain}</p>
      {failure && <p className="failure" role="alert">{failure}</p>}
    </div>
  );
}

/** A tool call in one line: name, what it is about, state, how long; its input and output unfold. A question is a form. */
export function ToolCard({ part, running, current, details }: ToolCardProps): ReactElement {
  const t = useStrings().calls;
  const { browserTools, delivery } = useContext(CallContext);
  const seconds = useSeconds(part, running);
  const retryable = useRetryable(part, isUnknown(part) && current && !running);
  const tool = getToolName(part);
  const inBrowser = browserTools.has(tool);
  if (part.state === "approval-requested" && current) return <ApprovalCard key={part.approval.id} part={part} details={details} />;
  return (
    <details className={`tool-card ${look(part)}`} open={retryable}>
      <summary>
        <Icon name={ICONS[look(part)] ?? "tool"} /><code>{tool}</code>
        <Words part={part} inBrowser={inBrowser} />
        <span className="state">{stateInWords(t, part, { running, current, inBrowser, delivery })}</span>
        {seconds !== null && <span className="took">{t.seconds(seconds)}</span>}
      </summary>
      <div className="fields">
        {part.input !== undefined && <Field label={t.input} value={part.input} />}
        {details.edited !== undefined && <Field label={t.changedTo} value={details.edited} />}
        {part.state === "output-available" && <Field label={t.output} value={part.output} />}
      </div>
      {retryable && <RunAgain part={part} />}
    </details>
  );
}
