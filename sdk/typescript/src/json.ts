/** Strict JSON as the protocol requires it. */

/** A JSON object. */
export type JSONObject = Record<string, unknown>;

const maxDepth = 10_000;
const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;

/**
 * Parses text. Throws a SyntaxError that quotes nothing of the text if
 * JSON.parse refuses it, or for duplicate names in an object, unpaired
 * surrogates, or nesting over 10,000.
 */
export function parseStrict(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new SyntaxError("not JSON"); // JSON.parse quotes the text
  }
  checkNames(text);
  return value;
}

/** Walks over text that is known to be JSON, so only strings and brackets matter. */
function checkNames(text: string): void {
  const open: Array<Set<string> | undefined> = []; // names of the open objects; undefined for arrays
  for (let i = 0; i < text.length; i++) {
    switch (text.charAt(i)) {
      case "{":
        open.push(new Set());
        break;
      case "[":
        open.push(undefined);
        break;
      case "}":
      case "]":
        open.pop();
        break;
      case '"': {
        const end = stringEnd(text, i);
        checkString(text, i, end, open.at(-1));
        i = end;
        break;
      }
    }
    if (open.length > maxDepth) {
      throw new SyntaxError("nested too deep");
    }
  }
}

/** Returns the index of the closing quote of the string at index start. */
function stringEnd(text: string, start: number): number {
  let i = start + 1;
  for (let c = text.charCodeAt(i); c !== quote; c = text.charCodeAt(i)) {
    i += c === backslash ? 2 : 1;
  }
  return i;
}

function checkString(text: string, start: number, end: number, names: Set<string> | undefined): void {
  const escapes = text.slice(start + 1, end).includes("\\u");
  const isName = names !== undefined && followedByColon(text, end + 1);
  if (!escapes && !isName) {
    return;
  }
  const value = JSON.parse(text.slice(start, end + 1)) as string;
  if (!value.isWellFormed()) {
    throw new SyntaxError("half a surrogate pair");
  }
  if (isName) {
    if (names.has(value)) {
      throw new SyntaxError("a name occurs twice");
    }
    names.add(value);
  }
}

/** In JSON, a string before a colon is always a name. */
function followedByColon(text: string, i: number): boolean {
  while (text.charCodeAt(i) <= 0x20) {
    i++;
  }
  return text.charCodeAt(i) === colon;
}

/** Reports whether value is a JSON object. */
export function isObject(value: unknown): value is JSONObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Reports whether value nests objects and arrays at most depth deep. */
export function within(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null) {
    return true;
  }
  return depth > 0 && Object.values(value).every((item) => within(item, depth - 1));
}

/**
 * Encodes a value. Returns undefined if it has no JSON form, or one that
 * parseStrict refuses. Throws errors of toJSON methods.
 */
export function stringify(value: unknown): string | undefined {
  const text: string | undefined = JSON.stringify(value);
  // JSON.stringify writes an unpaired surrogate as an escape.
  if (text !== undefined && text.includes("\\ud")) {
    try {
      parseStrict(text);
    } catch {
      return undefined;
    }
  }
  return text;
}
