/**
 * A subset of JSON Schema 2020-12, enough to tell a caller what is wrong with
 * an input: type, enum, const, properties, patternProperties,
 * additionalProperties, required, items, prefixItems, minItems, maxItems,
 * minimum, maximum, exclusiveMinimum, exclusiveMaximum, minLength, maxLength,
 * pattern, anyOf, oneOf and allOf. Every other keyword is ignored: the node
 * validates with all of them.
 */

import { isDeepStrictEqual } from "node:util";

import { safeText } from "./errors.js";
import { isObject, within, type JSONObject } from "./json.js";

const maxSchemaDepth = 32;
const maxValueDepth = 64;

/** Describes the fault of a value, quoting only names; undefined if it has none. */
export type Check = (value: unknown) => string | undefined;

/** A check at a JSON pointer. */
type CheckAt = (value: unknown, path: string) => string | undefined;

interface Compiled {
  check: CheckAt;
  exact: boolean; // false: keywords are ignored, so it may accept too much
}

const annotations = new Set(["$schema", "$comment", "$defs", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"]);

/** Compiles a schema. Throws a TypeError that names the malformed keyword. */
export function compileSchema(schema: unknown): Check {
  if (!within(schema, maxSchemaDepth)) {
    throw new TypeError("schema is nested too deep");
  }
  const { check } = compile(schema);
  return (value) => {
    const wrong = within(value, maxValueDepth) ? check(value, "") : "nested too deep";
    return wrong === undefined ? undefined : safeText(wrong);
  };
}

function compile(schema: unknown): Compiled {
  if (typeof schema === "boolean") {
    return { check: (_, path) => (schema ? undefined : at(path, "not allowed")), exact: true };
  }
  if (!isObject(schema)) {
    throw new TypeError("a schema must be an object or a boolean");
  }
  const parts: CheckAt[] = [];
  let exact = true;
  for (const [name, value] of Object.entries(schema)) {
    const keyword = Object.hasOwn(keywords, name) ? keywords[name] : undefined;
    if (keyword) {
      const part = keyword(value, schema);
      parts.push(part.check);
      exact &&= part.exact;
    } else {
      exact &&= annotations.has(name);
    }
  }
  return { check: (value, path) => firstOf(parts, (part) => part(value, path)), exact };
}

type Keyword = (value: unknown, schema: JSONObject) => Compiled;

const keywords: Record<string, Keyword> = {
  type: typeKeyword,
  enum: (v) => plain(equalsOne(array("enum", v)), "enum does not hold"),
  const: (v) => plain(equalsOne([v]), "const does not hold"),
  required: requiredKeyword,
  properties: (v) => propertiesKeyword("properties", v),
  patternProperties: (v) => propertiesKeyword("patternProperties", v),
  additionalProperties: additionalKeyword,
  items: itemsKeyword,
  prefixItems: prefixKeyword,
  minItems: bound("minItems", (v, n) => !Array.isArray(v) || v.length >= n),
  maxItems: bound("maxItems", (v, n) => !Array.isArray(v) || v.length <= n),
  minimum: bound("minimum", (v, n) => typeof v !== "number" || v >= n),
  maximum: bound("maximum", (v, n) => typeof v !== "number" || v <= n),
  exclusiveMinimum: bound("exclusiveMinimum", (v, n) => typeof v !== "number" || v > n),
  exclusiveMaximum: bound("exclusiveMaximum", (v, n) => typeof v !== "number" || v < n),
  minLength: bound("minLength", (v, n) => typeof v !== "string" || characters(v) >= n),
  maxLength: bound("maxLength", (v, n) => typeof v !== "string" || characters(v) <= n),
  pattern: (v) => {
    const form = pattern(v);
    return plain((value) => typeof value !== "string" || form.test(value), "pattern does not hold");
  },
  allOf: (v) => {
    const all = schemas("allOf", v);
    return { check: (value, path) => firstOf(all, (s) => s.check(value, path)), exact: all.every((s) => s.exact) };
  },
  anyOf: (v) => anyOf("anyOf", schemas("anyOf", v), Infinity),
  oneOf: (v) => {
    const all = schemas("oneOf", v);
    // A branch that accepts too much must not make a valid value ambiguous.
    return anyOf("oneOf", all, all.every((s) => s.exact) ? 1 : Infinity);
  },
};

const types = ["null", "boolean", "object", "array", "number", "string", "integer"];

function typeKeyword(v: unknown): Compiled {
  const want = typeof v === "string" ? [v] : array("type", v);
  for (const name of want) {
    if (typeof name !== "string" || !types.includes(name)) {
      throw new TypeError("type must name JSON types");
    }
  }
  const check: CheckAt = (value, path) => {
    const got = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
    const holds = want.includes(got) || (want.includes("integer") && Number.isInteger(value));
    return holds ? undefined : at(path, `got ${got}, want ${want.join(" or ")}`);
  };
  return { check, exact: true };
}

function requiredKeyword(v: unknown): Compiled {
  const names = array("required", v).map(String);
  const check: CheckAt = (value, path) => {
    const missing = isObject(value) ? names.filter((name) => !Object.hasOwn(value, name)) : [];
    return missing.length > 0 ? at(path, "missing " + missing.join(", ")) : undefined;
  };
  return { check, exact: true };
}

function propertiesKeyword(keyword: "properties" | "patternProperties", v: unknown): Compiled {
  const list = Object.entries(object(keyword, v)).map(([key, schema]) => ({
    applies: keyword === "properties" ? (name: string) => name === key : matcher(key),
    ...compile(schema),
  }));
  const check: CheckAt = (value, path) =>
    isObject(value)
      ? firstOf(Object.entries(value), ([name, item]) =>
          firstOf(list, (p) => (p.applies(name) ? p.check(item, `${path}/${escape(name)}`) : undefined)),
        )
      : undefined;
  return { check, exact: list.every((p) => p.exact) };
}

function additionalKeyword(v: unknown, schema: JSONObject): Compiled {
  const known = new Set(Object.keys(isObject(schema["properties"]) ? schema["properties"] : {}));
  const forms = Object.keys(isObject(schema["patternProperties"]) ? schema["patternProperties"] : {}).map(matcher);
  const rest = compile(v);
  const check: CheckAt = (value, path) => {
    const extra = isObject(value)
      ? Object.keys(value).filter((name) => !known.has(name) && !forms.some((matches) => matches(name)))
      : [];
    if (v === false) {
      return extra.length > 0 ? at(path, "unknown " + extra.join(", ")) : undefined;
    }
    return firstOf(extra, (name) => rest.check((value as JSONObject)[name], `${path}/${escape(name)}`));
  };
  return { check, exact: rest.exact };
}

function itemsKeyword(v: unknown, schema: JSONObject): Compiled {
  const item = compile(v);
  const from = Array.isArray(schema["prefixItems"]) ? schema["prefixItems"].length : 0;
  const check: CheckAt = (value, path) =>
    Array.isArray(value)
      ? firstOf(value.slice(from), (x, i) => item.check(x, `${path}/${from + i}`))
      : undefined;
  return { check, exact: item.exact };
}

function prefixKeyword(v: unknown): Compiled {
  const list = schemas("prefixItems", v);
  const check: CheckAt = (value, path) =>
    Array.isArray(value)
      ? firstOf(list, (s, i) => (i < value.length ? s.check(value[i], `${path}/${i}`) : undefined))
      : undefined;
  return { check, exact: list.every((s) => s.exact) };
}

function anyOf(keyword: string, all: Compiled[], most: number): Compiled {
  const check: CheckAt = (value, path) => {
    const n = all.filter((s) => s.check(value, path) === undefined).length;
    return n >= 1 && n <= most ? undefined : at(path, keyword + " does not hold");
  };
  return { check, exact: all.every((s) => s.exact) };
}

function bound(keyword: string, holds: (value: unknown, limit: number) => boolean): Keyword {
  return (limit) => {
    if (typeof limit !== "number") {
      throw new TypeError(keyword + " must be a number");
    }
    return plain((value) => holds(value, limit), keyword + " does not hold");
  };
}

function plain(holds: (value: unknown) => boolean, wrong: string): Compiled {
  return { check: (value, path) => (holds(value) ? undefined : at(path, wrong)), exact: true };
}

function equalsOne(allowed: unknown[]): (value: unknown) => boolean {
  return (value) => allowed.some((a) => isDeepStrictEqual(a, value));
}

function pattern(v: unknown): RegExp {
  if (typeof v !== "string") {
    throw new TypeError("pattern must be a string");
  }
  try {
    return new RegExp(v, "u");
  } catch {
    throw new TypeError("pattern is no regular expression");
  }
}

function matcher(form: string): (name: string) => boolean {
  const re = pattern(form);
  return (name) => re.test(name);
}

function array(keyword: string, v: unknown): unknown[] {
  if (!Array.isArray(v)) {
    throw new TypeError(keyword + " must be an array");
  }
  return v;
}

function object(keyword: string, v: unknown): JSONObject {
  if (!isObject(v)) {
    throw new TypeError(keyword + " must be an object");
  }
  return v;
}

function schemas(keyword: string, v: unknown): Compiled[] {
  return array(keyword, v).map(compile);
}

/** Characters as JSON Schema counts them: code points. */
function characters(text: string): number {
  let n = 0;
  for (const _ of text) {
    n++;
  }
  return n;
}

function firstOf<T>(list: T[], check: (item: T, index: number) => string | undefined): string | undefined {
  for (const [i, item] of list.entries()) {
    const wrong = check(item, i);
    if (wrong !== undefined) {
      return wrong;
    }
  }
  return undefined;
}

function at(path: string, reason: string): string {
  return path === "" ? reason : `${path}: ${reason}`;
}

function escape(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}
