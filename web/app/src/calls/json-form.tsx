import { type ReactElement, useId, useState } from "react";
import { useStrings } from "../strings";
import { type FormField, joinFields, readDraft } from "./form-fields";
import { exactJson } from "./json-text";

const MANY_OPTIONS = 6;
const LONG_TEXT = 60;

/** The state of a form over JSON: what is typed, and what is wrong with it. */
export interface JsonFormState {
  fields: FormField[];
  drafts: Readonly<Record<string, string>>;
  problems: Readonly<Record<string, string>>;
  isChanged: boolean;
  onDraft: (name: string, draft: string) => void;
  /** Show problems that the server found. */
  onProblems: (problems: Record<string, string>) => void;
  /** Return the whole value as JSON; null if a field is wrong, which then says so. */
  read: () => string | null;
  reset: () => void;
}

/** Keep what is typed into a form. */
export function useJsonForm(fields: FormField[]): JsonFormState {
  const t = useStrings().calls.problems;
  const [drafts, setDrafts] = useState<Record<string, string>>({});
  const [problems, setProblems] = useState<Record<string, string>>({});
  const read = (): string | null => {
    const found = fields.map((field) => ({ name: field.name, ...readDraft(t, field, drafts[field.name] ?? field.initial) }));
    const wrong = found.flatMap((one) => ("problem" in one ? [[one.name, one.problem]] : []));
    setProblems(Object.fromEntries(wrong));
    return wrong.length > 0 ? null : joinFields(found.map((one) => ({ name: one.name, json: "json" in one ? one.json : undefined })));
  };
  return {
    fields, drafts, problems, read, onProblems: setProblems,
    isChanged: fields.some(({ name, initial }) => drafts[name] !== undefined && drafts[name] !== initial),
    onDraft: (name, draft) => {
      setDrafts((before) => ({ ...before, [name]: draft }));
      setProblems(({ [name]: _, ...others }) => others);
    },
    reset: () => {
      setDrafts({});
      setProblems({});
    },
  };
}

interface ControlProps {
  field: FormField;
  draft: string;
  disabled: boolean;
  onDraft: (draft: string) => void;
  /** The ids of the label, and of the texts below the control. */
  labelId: string;
  describedBy: string | undefined;
  invalid: boolean;
}

const optionText = (option: unknown): string => (typeof option === "string" ? option : exactJson(option));

function Choice({ field, draft, disabled, onDraft, labelId, describedBy, invalid }: ControlProps): ReactElement {
  const t = useStrings().calls;
  const group = useId();
  const options = field.options.map((option, index) => ({ value: String(index), text: optionText(option) }));
  if (options.length > MANY_OPTIONS) {
    return (
      <select value={draft} disabled={disabled} aria-labelledby={labelId} aria-describedby={describedBy} aria-invalid={invalid}
        onChange={(event) => onDraft(event.target.value)}>
        <option value="" disabled={field.required}>{t.chooseOne}</option>
        {options.map(({ value, text }) => <option key={value} value={value}>{text}</option>)}
      </select>
    );
  }
  return (
    <div className="options" role="radiogroup" aria-labelledby={labelId} aria-describedby={describedBy} aria-invalid={invalid}
      aria-required={field.required}>
      {options.map(({ value, text }) => (
        <label key={value}>
          <input type="radio" name={group} value={value} checked={draft === value} disabled={disabled} onChange={() => onDraft(value)} />
          <span dir="auto">{text}</span>
        </label>
      ))}
    </div>
  );
}

function Control(props: ControlProps): ReactElement {
  const { field, draft, disabled, onDraft, labelId, describedBy, invalid } = props;
  const common = {
    disabled, "aria-labelledby": labelId, "aria-describedby": describedBy, "aria-invalid": invalid, "aria-required": field.required,
  };
  if (field.kind === "choice") return <Choice {...props} />;
  if (field.kind === "switch") {
    return (
      <input type="checkbox" role="switch" className="switch" checked={draft === "true"} {...common} aria-required={undefined}
        onChange={(event) => onDraft(String(event.target.checked))} />
    );
  }
  // The tool uses its default for a field that is left empty.
  const placeholder = field.schema.default == null ? "" : optionText(field.schema.default);
  const isLong = field.kind === "json" || field.initial.length > LONG_TEXT || field.initial.includes("\n");
  if (isLong) {
    return (
      <textarea className={field.kind} dir={field.kind === "json" ? "ltr" : "auto"} value={draft} placeholder={placeholder} spellCheck={field.kind !== "json"}
        rows={Math.min(10, Math.max(2, draft.split("\n").length))} {...common} onChange={(event) => onDraft(event.target.value)} />
    );
  }
  return (
    <input type="text" inputMode={field.kind === "number" ? "decimal" : "text"} dir="auto" autoComplete="off" value={draft} placeholder={placeholder} {...common}
      onChange={(event) => onDraft(event.target.value)} />
  );
}

interface FieldRowProps {
  field: FormField;
  form: JsonFormState;
  label: string;
  disabled: boolean;
}

function FieldRow({ field, form, label, disabled }: FieldRowProps): ReactElement {
  const t = useStrings().calls;
  const id = useId();
  const problem = form.problems[field.name];
  const below = [field.description && `${id}-about`, problem && `${id}-problem`].filter(Boolean).join(" ") || undefined;
  return (
    <div className="form-row" data-kind={field.kind} data-invalid={problem !== undefined}>
      <span className="label">
        <span id={`${id}-label`}>{field.name || label}</span>{!field.required && <span className="optional"> {t.optional}</span>}
      </span>
      <Control field={field} draft={form.drafts[field.name] ?? field.initial} disabled={disabled}
        onDraft={(draft) => form.onDraft(field.name, draft)} labelId={`${id}-label`} describedBy={below} invalid={problem !== undefined} />
      {field.description && <p className="about" id={`${id}-about`} dir="auto">{field.description}</p>}
      {problem !== undefined && <p className="failure" id={`${id}-problem`} role="alert">{problem}</p>}
    </div>
  );
}

interface JsonFormProps {
  form: JsonFormState;
  /** The name of the form, and of its field if it has only one for all. */
  label: string;
  disabled: boolean;
}

/** The fields of a form. Its texts come from tools and models: they are only ever text. */
export function JsonForm({ form, label, disabled }: JsonFormProps): ReactElement {
  return (
    <div className="json-form" role="group" aria-label={label}>
      {form.fields.map((field) => <FieldRow key={field.name} field={field} form={form} label={label} disabled={disabled} />)}
    </div>
  );
}
