import type { ObjectValue, Value } from "./json.js";

/** The part of JSON Schema 2020-12 that the job types use. */
export interface Schema {
  type?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  propertyNames?: Schema;
  minProperties?: number;
  maxProperties?: number;
  items?: Schema;
  minItems?: number;
  maxItems?: number;
  enum?: unknown[];
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  default?: unknown;
  /** For other validators only: the rules of the job type check the same. */
  allOf?: Schema[];
  if?: Schema;
  then?: Schema;
  else?: Schema;
  not?: Schema;
}

export interface JobSchemas {
  input: Schema;
  output: Schema;
}

/** A value that violates its schema; the message begins with the path. */
export class SchemaError extends Error {
  constructor(path: string, reason: string) {
    super(`${path || "the document"} ${reason}`);
  }
}

export function validate(schema: Schema, value: Value, path = ""): void {
  if (schema.type !== undefined && !hasType(schema.type, value)) throw new SchemaError(path, `is not of type ${schema.type}`);
  if (schema.enum && !schema.enum.includes(value)) throw new SchemaError(path, `is not one of ${schema.enum.join(", ")}`);
  if (typeof value === "string") validateString(schema, value, path);
  if (typeof value === "number") validateNumber(schema, value, path);
  if (Array.isArray(value)) validateArray(schema, value, path);
  if (value instanceof Map) validateObject(schema, value, path);
}

function hasType(type: string, value: Value): boolean {
  switch (type) {
    case "object":
      return value instanceof Map;
    case "array":
      return Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}

function validateString(schema: Schema, value: string, path: string): void {
  within(schema.minLength, [...value].length, schema.maxLength, path, "characters");
  if (schema.pattern !== undefined && !new RegExp(schema.pattern, "u").test(value)) throw new SchemaError(path, `does not match ${schema.pattern}`);
}

function validateNumber(schema: Schema, value: number, path: string): void {
  within(schema.minimum, value, schema.maximum, path, "as its value");
  if (schema.exclusiveMinimum !== undefined && value <= schema.exclusiveMinimum) throw new SchemaError(path, `is not more than ${schema.exclusiveMinimum}`);
}

function validateArray(schema: Schema, value: Value[], path: string): void {
  within(schema.minItems, value.length, schema.maxItems, path, "items");
  const { items } = schema;
  if (items) value.forEach((item, i) => validate(items, item, `${path}[${i}]`));
}

function validateObject(schema: Schema, value: ObjectValue, path: string): void {
  within(schema.minProperties, value.size, schema.maxProperties, path, "members");
  for (const name of schema.required ?? []) {
    if (!value.has(name)) throw new SchemaError(member(path, name), "is missing");
  }
  for (const [name, item] of value) {
    if (schema.propertyNames) validate(schema.propertyNames, name, `the name ${member(path, name)}`);
    const rule = propertyOf(schema, name);
    if (rule === false) throw new SchemaError(member(path, name), "is unknown");
    if (rule !== true) validate(rule, item, member(path, name));
  }
}

function propertyOf(schema: Schema, name: string): Schema | boolean {
  const { properties, additionalProperties } = schema;
  const known = properties && Object.hasOwn(properties, name) ? properties[name] : undefined;
  return known ?? additionalProperties ?? true;
}

function within(min: number | undefined, n: number, max: number | undefined, path: string, what: string): void {
  if (min !== undefined && n < min) throw new SchemaError(path, `has ${n} ${what}, at least ${min}`);
  if (max !== undefined && n > max) throw new SchemaError(path, `has ${n} ${what}, at most ${max}`);
}

function member(path: string, name: string): string {
  return path ? `${path}.${name}` : name;
}

/** Returns a copy in which absent members have their defaults, recursively. */
export function withDefaults(schema: Schema, value: Value): Value {
  if (Array.isArray(value)) {
    const { items } = schema;
    return items ? value.map((item) => withDefaults(items, item)) : value;
  }
  if (!(value instanceof Map)) return value;
  const filled: ObjectValue = new Map(value);
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    const given = filled.has(name) ? filled.get(name) : fromPlain(property.default); // null counts as present
    if (given !== undefined) filled.set(name, withDefaults(property, given));
  }
  return filled;
}

/** Defaults are scalars and {}. */
function fromPlain(value: unknown): Value | undefined {
  return typeof value === "object" && value !== null ? new Map() : (value as Value | undefined);
}
