/**
 * A strict JSON decoder and RFC 8785. `JSON.parse` accepts duplicate keys,
 * rounds large integers, and treats `__proto__` specially; but a signed
 * document must mean the same to every reader.
 */

/** A decoded JSON value. Objects are Maps, in the order of the text. */
export type Value = null | boolean | number | string | Value[] | ObjectValue;
export type ObjectValue = Map<string, Value>;

/** Describes the fault in a text, with its UTF-16 index. */
export class JsonError extends Error {
  constructor(reason: string, at: number) {
    super(`${reason} at ${at}`);
  }
}

/** The maximum nesting of arrays and objects. */
const maxDepth = 128;

/** The maximum length of a number: the exact value of any double is shorter. */
const maxNumber = 1100;

const number = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const plain = /[^"\\\u0000-\u001f]*/y;
const space = /[ \t\n\r]*/y;
const escapes: Record<string, string> = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

export function parseJson(text: string): Value {
  const decoder = new Decoder(text);
  const value = decoder.value(0);
  decoder.end();
  return value;
}

class Decoder {
  private at = 0;

  constructor(private readonly text: string) {}

  value(depth: number): Value {
    this.skip();
    switch (this.text[this.at]) {
      case "{":
        return this.object(depth);
      case "[":
        return this.array(depth);
      case '"':
        return this.string();
      case "t":
        return this.word("true", true);
      case "f":
        return this.word("false", false);
      case "n":
        return this.word("null", null);
    }
    return this.number();
  }

  end(): void {
    this.skip();
    if (this.at !== this.text.length) throw this.error("data after the document");
  }

  private object(depth: number): ObjectValue {
    const object: ObjectValue = new Map();
    this.open(depth);
    if (this.next("}")) return object;
    for (;;) {
      this.skip();
      if (this.text[this.at] !== '"') throw this.error("a key was expected");
      const key = this.string();
      if (object.has(key)) throw this.error("duplicate key");
      if (!this.next(":")) throw this.error("a colon was expected");
      object.set(key, this.value(depth + 1));
      if (this.next("}")) return object;
      if (!this.next(",")) throw this.error("a comma was expected");
    }
  }

  private array(depth: number): Value[] {
    const array: Value[] = [];
    this.open(depth);
    if (this.next("]")) return array;
    for (;;) {
      array.push(this.value(depth + 1));
      if (this.next("]")) return array;
      if (!this.next(",")) throw this.error("a comma was expected");
    }
  }

  private open(depth: number): void {
    if (depth >= maxDepth) throw this.error("nested too deeply");
    this.at++;
  }

  private string(): string {
    const parts: string[] = [];
    this.at++;
    for (;;) {
      parts.push(this.match(plain));
      const c = this.text[this.at++];
      if (c === '"') break;
      if (c !== "\\") throw this.error("unfinished string or bare control character");
      parts.push(this.escape());
    }
    const text = parts.join("");
    if (!text.isWellFormed()) throw this.error("lone surrogate");
    return text;
  }

  private escape(): string {
    const c = this.text[this.at++] ?? "";
    const simple = Object.hasOwn(escapes, c) ? escapes[c] : undefined;
    if (simple !== undefined) return simple;
    const hex = this.text.slice(this.at, this.at + 4);
    if (c !== "u" || !/^[0-9a-fA-F]{4}$/.test(hex)) throw this.error("bad escape");
    this.at += 4;
    return String.fromCharCode(parseInt(hex, 16));
  }

  private number(): number {
    const token = this.match(number);
    if (token === "" || token.length > maxNumber) throw this.error("a value was expected");
    const n = Number(token);
    if (!Number.isFinite(n)) throw this.error("number out of range");
    // From 1e21 on the canonical form is that of a float, below it that of an
    // integer.
    const integer = /^-?[0-9]+$/.test(token) || Math.abs(n) < 1e21;
    if (integer && Math.abs(n) > Number.MAX_SAFE_INTEGER) throw this.error("integer beyond 2^53-1");
    return n;
  }

  private word<T extends Value>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.at)) throw this.error("a value was expected");
    this.at += word.length;
    return value;
  }

  private next(c: string): boolean {
    this.skip();
    if (this.text[this.at] !== c) return false;
    this.at++;
    return true;
  }

  private skip(): void {
    this.match(space);
  }

  private match(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0] ?? "";
    this.at += found.length;
    return found;
  }

  private error(reason: string): JsonError {
    return new JsonError(reason, this.at);
  }
}

/** RFC 8785. Its forms of numbers and strings are those of ECMAScript. */
export function canonical(value: Value): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (!(value instanceof Map)) return JSON.stringify(value); // -0 is 0
  // The default order of sort is that of UTF-16 code units, as RFC 8785 requires.
  const members = [...value.keys()].sort().map((key) => `${JSON.stringify(key)}:${canonical(value.get(key) ?? null)}`);
  return `{${members.join(",")}}`;
}

/** Decodes a document that must be in canonical form. */
export function parseCanonical(text: string): Value {
  const value = parseJson(text);
  if (canonical(value) !== text) throw new JsonError("not in canonical form (RFC 8785)", 0);
  return value;
}
