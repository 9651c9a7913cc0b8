import { getToolName } from "ai";
import {
  type FormEvent, type KeyboardEvent, type MouseEvent, type ReactElement, useContext, useEffect, useId, useMemo, useRef, useState,
} from "react";
import { HAS_KEYBOARD } from "../design/has-keyboard";
import { Icon } from "../design/icon";
import { Segments } from "../design/segments";
import { type Strings, useStrings } from "../strings";
import type { ToolPart } from "../transport/tool-part";
import { AnswerRefused, type CallAnswer } from "./answers";
import type { ApprovalDetails, Scope } from "./approval-details";
import { CallContext } from "./call-context";
import { describeCall } from "./describe-call";
import { Expiry } from "./expiry";
import { argumentFields, type FormField, jsonField, payloadFields } from "./form-fields";
import { JsonForm, type JsonFormState, useJsonForm } from "./json-form";
import { isObject } from "./json-schema";
import { exactJson, isRounded } from "./json-text";

/** Return the question to answer next. Not its button: an Enter that is held too long must not answer that one too. */
function nextQuestion(answered: HTMLElement | null): HTMLElement | null {
  const others = [...document.querySelectorAll<HTMLElement>(".approval")].filter((card) => card !== answered);
  const after = others.find((card) => answered && answered.compareDocumentPosition(card) & Node.DOCUMENT_POSITION_FOLLOWING);
  return after ?? others[0] ?? (HAS_KEYBOARD ? document.getElementById("composer") : null);
}

/** Focus the first field that is wrong, once it says so. */
function focusProblem(card: HTMLElement): void {
  requestAnimationFrame(() => {
    const row = card.querySelector("[data-invalid=true]");
    row?.querySelector<HTMLElement>("input, select, textarea")?.focus();
  });
}

const NOTHING: FormField[] = [];

interface AnswerForms {
  args: JsonFormState;
  payload: JsonFormState;
  editing: boolean;
  setEditing: (editing: boolean) => void;
  payloadAsJson: boolean;
  setPayloadAsJson: (asJson: boolean) => void;
  /** Return what is filled in; null if something is wrong, which then says so. */
  read: () => Pick<CallAnswer, "args" | "payload"> | null;
}

/** The two forms of a question: other arguments, and the payload that the tool asks for. */
function useAnswerForms(part: ToolPart, payload: unknown, schema: unknown): AnswerForms {
  const [editing, setEditing] = useState(false);
  const [payloadAsJson, setPayloadAsJson] = useState(false);
  const argsForm = useJsonForm(useMemo(() => (editing ? argumentFields(schema, part.input) : NOTHING), [editing, schema, part.input]));
  const payloadForm = useJsonForm(useMemo(() => {
    if (payload == null) return NOTHING;
    return payloadAsJson ? jsonField(payload) : payloadFields(payload);
  }, [payload, payloadAsJson]));
  const read: AnswerForms["read"] = () => {
    const [args, answer] = [editing ? argsForm.read() : undefined, payload == null ? undefined : payloadForm.read()];
    if (args === null || answer === null) return null;
    return { ...(args !== undefined && argsForm.isChanged ? { args } : {}), ...(answer !== undefined ? { payload: answer } : {}) };
  };
  return {
    args: argsForm, payload: payloadForm, editing, payloadAsJson, read,
    setEditing: (next) => {
      argsForm.reset();
      setEditing(next);
    },
    setPayloadAsJson: (next) => {
      payloadForm.reset();
      setPayloadAsJson(next);
    },
  };
}

interface SectionProps {
  label: string;
  action?: { label: string; describedBy: string; onClick: () => void } | undefined;
  children: ReactElement;
}

function Section({ label, action, children }: SectionProps): ReactElement {
  return (
    <div className="field">
      <div className="section-head">
        <span>{label}</span>
        {action && (
          <button type="button" className="quiet" aria-describedby={action.describedBy} onClick={action.onClick}>{action.label}</button>
        )}
      </div>
      {children}
    </div>
  );
}

function scopeSegments(t: Strings["calls"], scopes: Scope[]): { value: Scope; label: string }[] {
  return (["once", "chat", "always"] as const).filter((scope) => scopes.includes(scope)).map((value) => ({ value, label: t.scopes[value] }));
}

interface ApprovalCardProps {
  part: ToolPart;
  details: ApprovalDetails;
}

/** A call that waits for approval: the request, its exact arguments, what the tool wants to know, and the two answers. */
export function ApprovalCard({ part, details }: ApprovalCardProps): ReactElement {
  const t = useStrings().calls;
  const { browserTools, schemas, twins, answerable, onAnswer, onCheck } = useContext(CallContext);
  const [reason, setReason] = useState("");
  const [scope, setScope] = useState<Scope>("once");
  const [sending, setSending] = useState(false);
  const [failure, setFailure] = useState("");
  const card = useRef<HTMLFormElement>(null);
  const question = useId();
  const input = useId();
  const tool = getToolName(part);
  const twin = twins.get(part.toolCallId);
  const forms = useAnswerForms(part, details.payload, schemas.get(tool));
  const rounded = isRounded(part.input);
  const editable = answerable && !rounded && isObject(part.input) && argumentFields(schemas.get(tool), part.input).length > 0;
  const scopes = details.scopes ?? ["once"];
  useEffect(() => {
    // It may have been answered in another window meanwhile, and the event about it lost.
    window.addEventListener("focus", onCheck);
    return () => window.removeEventListener("focus", onCheck);
  }, [onCheck]);
  const showRefusal = (error: unknown): void => {
    const problems = error instanceof AnswerRefused ? error.problems : {};
    forms.args.onProblems(problems);
    const isBeside = forms.args.fields.some(({ name }) => name in problems);
    if (!isBeside) setFailure(error instanceof AnswerRefused ? error.message : t.notSent);
    if (card.current) focusProblem(card.current);
  };
  const answer = async (approved: boolean): Promise<void> => {
    if (sending) return;
    setFailure("");
    const filled = approved ? forms.read() : {};
    if (filled === null) {
      if (card.current) focusProblem(card.current);
      return;
    }
    const next = nextQuestion(card.current);
    setSending(true);
    try {
      await onAnswer(part, { approved, ...filled, ...(approved ? { scope } : { reason: reason.trim() }) });
      // The card goes away with its buttons: without this the keyboard would start over at the top.
      next?.focus();
    } catch (error) {
      showRefusal(error);
    } finally {
      setSending(false);
    }
  };
  const click = (event: MouseEvent, approved: boolean): void => {
    // The second click of a double click may hit the next card, which has moved up meanwhile.
    if (event.detail <= 1) void answer(approved);
  };
  const denyOnEnter = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && !event.nativeEvent.isComposing && answerable) void answer(false);
  };
  // Enter in a field answers nothing: only the buttons do, and Enter after the reason of a denial.
  const keep = (event: FormEvent): void => event.preventDefault();
  const edit = { label: forms.editing ? t.undoChanges : t.edit, describedBy: question, onClick: () => forms.setEditing(!forms.editing) };
  const asJson = {
    label: forms.payloadAsJson ? t.asForm : t.asJson, describedBy: question,
    onClick: () => forms.setPayloadAsJson(!forms.payloadAsJson),
  };
  return (
    <form ref={card} className="tool-card approval" tabIndex={-1} aria-labelledby={`${question} ${input}`} aria-busy={sending}
      onSubmit={keep}>
      <div className="question">
        <Icon name="ask" />
        <p id={question}>
          {t.allow(describeCall(t, tool, part.input, browserTools.has(tool)))}
          {twin && <> <span className="badge">{t.twin(twin.number, twin.of)}</span></>}
        </p>
        {details.expiresAt && <Expiry at={details.expiresAt} onOver={onCheck} />}
      </div>
      {details.hint && <p className="words">{details.hint}</p>}
      <div className="fields">
        {details.payload != null && (
          <Section label={t.answerFor(tool)} action={answerable ? asJson : undefined}>
            <JsonForm form={forms.payload} label={t.answerFor(tool)} disabled={!answerable || sending} />
          </Section>
        )}
        <Section label={t.argumentsOf(tool)} action={editable ? edit : undefined}>
          {forms.editing
            ? <JsonForm form={forms.args} label={t.argumentsOf(tool)} disabled={!answerable || sending} />
            : <pre tabIndex={0} aria-label={t.argumentsOf(tool)}><span id={input}>{exactJson(part.input)}</span></pre>}
        </Section>
        {rounded && <p className="caution">{t.rounded}</p>}
      </div>
      {!answerable && <p className="words">{t.notInDirect}</p>}
      {failure && <p className="failure" role="alert">{failure}</p>}
      <div className="answers">
        {scopes.length > 1 && (
          <Segments legend={t.scope} group={`scope-${input}`} hideLegend segments={scopeSegments(t, scopes)} value={scope} onChange={setScope} />
        )}
        <button type="button" className="primary" aria-describedby={question} disabled={!answerable}
          onClick={(event) => click(event, true)}>{t.approve}</button>
        <button type="button" aria-describedby={question} disabled={!answerable}
          onClick={(event) => click(event, false)}>{t.deny}</button>
        <input type="text" dir="auto" value={reason} maxLength={500} disabled={!answerable} autoComplete="off" enterKeyHint="send"
          placeholder={t.whyNot} aria-label={t.reasonToDeny(tool)} onKeyDown={denyOnEnter}
          onChange={(event) => setReason(event.target.value)} />
      </div>
    </form>
  );
}
