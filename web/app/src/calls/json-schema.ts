import type { Strings } from "../strings";

/** The words of JSON schema that this page understands. The server checks all others. */
export interface JsonSchema {
  $ref?: string;
  $defs?: Record<string, JsonSchema>;
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
  properties?: Record<string, JsonSchema>;
  required?: string[];
  items?: JsonSchema;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  description?: string;
  default?: unknown;
}

const DEEPEST = 20;

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Follow a reference into `$defs`. One that leads nowhere is a schema that allows everything. */
export function resolved(schema: unknown, root: JsonSchema, depth = 0): JsonSchema {
  if (!isObject(schema)) return {};
  const name = typeof schema.$ref === "string" ? /^#\/(?:\$defs|definitions)\/(.+)$/.exec(schema.$ref)?.[1] : undefined;
  if (name === undefined || depth > DEEPEST) return schema;
  const { $ref: _, ...beside } = schema;
  return { ...resolved(root.$defs?.[name], root, depth + 1), ...beside };
}

/** Return the schema of a value that may also be null without that null; null if it is not such a schema. */
export function withoutNull(schema: JsonSchema, root: JsonSchema): JsonSchema | null {
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((type) => type !== "null");
    return types.length === 1 && types.length < schema.type.length ? { ...schema, type: types[0] as string } : null;
  }
  const choices = schema.anyOf ?? schema.oneOf;
  const others = choices?.filter((one) => resolved(one, root).type !== "null");
  if (!choices || others?.length !== 1 || choices.length !== 2) return null;
  const { anyOf: _, oneOf: __, ...beside } = schema;
  return { ...resolved(others[0], root), ...beside };
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value;
}

function hasType(value: unknown, type: string): boolean {
  return type === "integer" ? Number.isInteger(value) : typeOf(value) === type.toLowerCase();
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

type Words = Strings["calls"]["problems"];

function sizeProblem(t: Words, schema: JsonSchema, value: unknown): string | null {
  if (typeof value === "number") {
    if (schema.minimum !== undefined && value < schema.minimum) return t.atLeast(schema.minimum);
    if (schema.maximum !== undefined && value > schema.maximum) return t.atMost(schema.maximum);
    if (schema.exclusiveMinimum !== undefined && value <= schema.exclusiveMinimum) return t.moreThan(schema.exclusiveMinimum);
    if (schema.exclusiveMaximum !== undefined && value >= schema.exclusiveMaximum) return t.lessThan(schema.exclusiveMaximum);
  }
  if (typeof value === "string") {
    const length = [...value].length;
    if (schema.minLength !== undefined && length < schema.minLength) return t.longer(schema.minLength);
    if (schema.maxLength !== undefined && length > schema.maxLength) return t.shorter(schema.maxLength);
  }
  if (Array.isArray(value)) {
    if (schema.minItems !== undefined && value.length < schema.minItems) return t.moreItems(schema.minItems);
    if (schema.maxItems !== undefined && value.length > schema.maxItems) return t.fewerItems(schema.maxItems);
  }
  return null;
}

function at(place: string | number, problem: string | null): string | null {
  return problem === null ? null : `${place}: ${problem}`;
}

function innerProblem(t: Words, schema: JsonSchema, value: unknown, root: JsonSchema, depth: number): string | null {
  if (Array.isArray(value) && schema.items) {
    for (const [index, item] of value.entries()) {
      const problem = at(index + 1, problemWith(t, schema.items, item, root, depth));
      if (problem !== null) return problem;
    }
  }
  if (!isObject(value)) return null;
  const missing = schema.required?.find((name) => !Object.hasOwn(value, name));
  if (missing !== undefined) return at(missing, t.missing);
  for (const [name, inner] of Object.entries(schema.properties ?? {})) {
    const problem = Object.hasOwn(value, name) ? at(name, problemWith(t, inner, value[name], root, depth)) : null;
    if (problem !== null) return problem;
  }
  return null;
}

/** Return what is wrong with a value, in words; null if nothing is, as far as this page can tell. */
export function problemWith(t: Words, schema: JsonSchema, value: unknown, root: JsonSchema, depth = 0): string | null {
  if (depth > DEEPEST) return null;
  const own = resolved(schema, root);
  const choices = own.anyOf ?? own.oneOf;
  if (choices) {
    const problems = choices.map((one) => problemWith(t, one, value, root, depth + 1));
    return problems.includes(null) ? null : (problems[0] ?? null);
  }
  const types = [own.type ?? []].flat();
  if (types.length > 0 && !types.some((type) => hasType(value, type))) return t.type(types[0] as string);
  if (own.enum && !own.enum.some((one) => isSame(one, value))) return t.oneOf(own.enum.map((one) => JSON.stringify(one)));
  if (own.const !== undefined && !isSame(own.const, value)) return t.oneOf([JSON.stringify(own.const)]);
  return sizeProblem(t, own, value) ?? innerProblem(t, own, value, root, depth + 1);
}
