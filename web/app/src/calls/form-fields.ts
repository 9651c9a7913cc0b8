import type { Strings } from "../strings";
import { isObject, type JsonSchema, problemWith, resolved, withoutNull } from "./json-schema";
import { exactJson, hidesCharacters } from "./json-text";

/** A field of a form. Its draft is a string: what is typed, the index of the choice, `true` or `false`, or JSON. */
export interface FormField {
  /** The property that it edits; empty for a form of one field that edits the whole value. */
  name: string;
  kind: "text" | "number" | "choice" | "switch" | "json";
  description: string;
  required: boolean;
  /** The values to choose from. */
  options: unknown[];
  schema: JsonSchema;
  /** The schema that `schema` may refer into. */
  root: JsonSchema;
  /** The value as JSON; undefined if there is none yet. */
  original: string | undefined;
  /** The draft of the original value. */
  initial: string;
}

type FieldKind = FormField["kind"];

const isScalar = (value: unknown): boolean => value === null || ["string", "number", "boolean"].includes(typeof value);

function optionsOf(schema: JsonSchema, root: JsonSchema): unknown[] {
  const variants = (schema.anyOf ?? schema.oneOf)?.map((one) => resolved(one, root));
  if (variants?.every((one) => one.const !== undefined)) return variants.map((one) => one.const);
  return schema.enum?.every(isScalar) ? schema.enum : [];
}

function fits(kind: FieldKind, value: unknown, options: unknown[]): boolean {
  if (value === undefined || value === null) return true;
  switch (kind) {
    case "text": return typeof value === "string" && !hidesCharacters(value);
    case "number": return typeof value === "number";
    case "switch": return typeof value === "boolean";
    case "choice": return options.includes(value);
    case "json": return true;
  }
}

const KINDS: Record<string, FieldKind> = { string: "text", number: "number", integer: "number", boolean: "switch" };

/** Return the kind of field for a value. A value that another kind would hide or change is edited as JSON. */
function kindOf(schema: JsonSchema, value: unknown, options: unknown[], required: boolean): FieldKind {
  const named = typeof schema.type === "string" ? KINDS[schema.type.toLowerCase()] : undefined;
  const kind = options.length > 0 ? "choice" : (named ?? "json");
  // A switch has no third position for "not given".
  if (kind === "switch" && (value === null || (value === undefined && !required))) return "json";
  return fits(kind, value, options) ? kind : "json";
}

function initialDraft(kind: FieldKind, value: unknown, options: unknown[]): string {
  if (kind === "json") return value === undefined ? "" : exactJson(value);
  if (kind === "choice") return options.includes(value) ? String(options.indexOf(value)) : "";
  if (kind === "switch") return String(value === true);
  return value === undefined || value === null ? "" : String(value);
}

function fieldOf(name: string, declared: unknown, value: unknown, root: JsonSchema, required: boolean): FormField {
  const schema = resolved(declared, root);
  const inner = withoutNull(schema, root) ?? schema;
  const options = optionsOf(inner, root);
  const kind = kindOf(inner, value, options, required);
  return {
    name, kind, required, options, schema, root,
    description: typeof schema.description === "string" ? schema.description : "",
    original: value === undefined ? undefined : JSON.stringify(value),
    initial: initialDraft(kind, value, options),
  };
}

/** Return a form of one field: the whole value as JSON. */
export function jsonField(value: unknown, schema: JsonSchema = {}): FormField[] {
  const field = fieldOf("", {}, value, schema, true);
  return [{ ...field, kind: "json", schema, root: schema, options: [], initial: exactJson(value) }];
}

/** Return the fields of a tool's arguments: those of its schema, then those that only the call has. */
export function argumentFields(schema: unknown, input: unknown): FormField[] {
  if (!isObject(schema) || !isObject(schema.properties) || !isObject(input)) return jsonField(input);
  const root: JsonSchema = schema;
  const properties = schema.properties as Record<string, JsonSchema>;
  const names = [...new Set([...Object.keys(properties), ...Object.keys(input)])];
  return names.map((name) => fieldOf(name, properties[name], input[name], root, root.required?.includes(name) ?? false));
}

function exampleSchema(value: unknown): JsonSchema {
  if (Array.isArray(value)) return { enum: value };
  return { type: typeof value };
}

/** Return the field for one part of a payload without a schema: a list of plain values is a choice among them. */
function payloadField(name: string, value: unknown): FormField {
  const isChoice = Array.isArray(value) && value.length > 0 && value.every(isScalar);
  if (isChoice) return fieldOf(name, exampleSchema(value), undefined, {}, true);
  const isPlain = isScalar(value) && value !== null;
  return fieldOf(name, isPlain ? exampleSchema(value) : {}, value, {}, true);
}

/** Return the fields of the payload that a tool asks with. */
export function payloadFields(payload: unknown): FormField[] {
  if (isObject(payload) && Object.keys(payload).length > 0) {
    return Object.entries(payload).map(([name, value]) => payloadField(name, value));
  }
  return [payloadField("", payload)];
}

/** A draft as JSON text, undefined for nothing; or what is wrong with it. */
type Read = { json: string | undefined } | { problem: string };

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

function asJson(t: Strings["calls"]["problems"], { kind, required, options }: FormField, draft: string): Read {
  const text = draft.trim();
  if (kind === "text") return { json: JSON.stringify(draft) };
  if (kind === "switch") return { json: draft };
  if (text === "") return required ? { problem: kind === "choice" ? t.choose : t.missing } : { json: undefined };
  if (kind === "choice") return { json: JSON.stringify(options[Number(text)]) };
  if (kind === "number") return NUMBER.test(text) ? { json: text } : { problem: t.type("number") };
  try {
    JSON.parse(text);
    return { json: text };
  } catch {
    return { problem: t.json };
  }
}

/** Read a draft. What was not changed stays as it came; numbers are never rounded, since they stay text. */
export function readDraft(t: Strings["calls"]["problems"], field: FormField, draft: string): Read {
  if (draft === field.initial && (field.original !== undefined || !field.required)) return { json: field.original };
  if (draft === "" && field.kind === "text" && field.original === undefined) return { problem: t.missing };
  const read = asJson(t, field, draft);
  if ("problem" in read || read.json === undefined) return read;
  const problem = problemWith(t, field.schema, JSON.parse(read.json), field.root);
  return problem === null ? read : { problem };
}

/** Put the fields together: the JSON of the whole value. */
export function joinFields(values: { name: string; json: string | undefined }[]): string {
  if (values.length === 1 && values[0]?.name === "") return values[0].json ?? "null";
  const properties = values.filter(({ json }) => json !== undefined).map(({ name, json }) => `${JSON.stringify(name)}:${json}`);
  return `{${properties.join(",")}}`;
}
