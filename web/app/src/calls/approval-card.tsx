import { getToolName } from "ai";
import {
  type FormEvent, type MouseEvent, type ReactElement, useContext, useEffect, useId, useRef, useState,
} from "react";
import { HAS_KEYBOARD } from "../design/has-keyboard";
import { Icon } from "../design/icon";
import { useStrings } from "../strings";
import type { ToolPart } from "../transport/tool-part";
import type { ApprovalDetails } from "./approval-details";
import { CallContext } from "./call-context";
import { describeCall } from "./describe-call";
import { Expiry } from "./expiry";
import { exactJson } from "./json-text";

/** Focus the next question, not its button: an Enter that is held too long must not answer that one too. */
function focusNextQuestion(answered: HTMLElement): void {
  const others = [...document.querySelectorAll<HTMLElement>(".approval")].filter((card) => card !== answered);
  const after = others.find((card) => answered.compareDocumentPosition(card) & Node.DOCUMENT_POSITION_FOLLOWING);
  const next = after ?? others[0];
  if (next) next.focus();
  else if (HAS_KEYBOARD) document.getElementById("composer")?.focus();
}

interface ApprovalCardProps {
  part: ToolPart;
  approvalId: string;
  details: ApprovalDetails;
}

function Exact({ label, value, id }: { label: string; value: unknown; id?: string }): ReactElement {
  return (
    <div className="field">
      <span>{label}</span>
      <pre tabIndex={0} aria-label={label}><span id={id}>{exactJson(value)}</span></pre>
    </div>
  );
}

/** A call that waits for approval: the request, its exact arguments, and the two answers. */
export function ApprovalCard({ part, approvalId, details }: ApprovalCardProps): ReactElement {
  const t = useStrings().calls;
  const { browserTools, answerable, onAnswer, onCheck } = useContext(CallContext);
  const [reason, setReason] = useState("");
  const card = useRef<HTMLFormElement>(null);
  const question = useId();
  const input = useId();
  const tool = getToolName(part);
  useEffect(() => {
    // It may have been answered in another window meanwhile, and the event about it lost.
    window.addEventListener("focus", onCheck);
    return () => window.removeEventListener("focus", onCheck);
  }, [onCheck]);
  const answer = (approved: boolean): void => {
    // The card goes away with its buttons: without this the keyboard would start over at the top.
    if (card.current) focusNextQuestion(card.current);
    onAnswer(approvalId, approved, reason.trim());
  };
  const click = (event: MouseEvent, approved: boolean): void => {
    // The second click of a double click may hit the next card, which has moved up meanwhile.
    if (event.detail <= 1) answer(approved);
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (answerable) answer(false);
  };
  return (
    <form ref={card} className="tool-card approval" tabIndex={-1} aria-labelledby={`${question} ${input}`} onSubmit={submit}>
      <p className="question" id={question}>
        <Icon name="ask" />
        <span>{t.allow(describeCall(t, tool, part.input, browserTools.has(tool)))}</span>
      </p>
      {details.hint && <p className="words">{details.hint}</p>}
      <div className="fields">
        <Exact label={t.argumentsOf(tool)} value={part.input} id={input} />
        {details.payload != null && <Exact label={t.details} value={details.payload} />}
      </div>
      {!answerable && <p className="words">{t.notInDirect}</p>}
      <div className="answers">
        <button type="button" className="primary" aria-describedby={question} disabled={!answerable}
          onClick={(event) => click(event, true)}>{t.approve}</button>
        <button type="button" aria-describedby={question} disabled={!answerable}
          onClick={(event) => click(event, false)}>{t.deny}</button>
        <input type="text" dir="auto" value={reason} maxLength={500} disabled={!answerable} autoComplete="off" enterKeyHint="send"
          placeholder={t.whyNot} aria-label={t.reasonToDeny(tool)}
          onChange={(event) => setReason(event.target.value)} />
        {details.expiresAt && <Expiry at={details.expiresAt} onOver={onCheck} />}
      </div>
    </form>
  );
}
