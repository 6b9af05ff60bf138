/** Strict reading of an object's fields, and the text formats in our documents. */
import { secp256k1 } from "@noble/curves/secp256k1.js";
import { hexToBytes, isDigest, isHex, utf8 } from "./hex.js";
import { parseCanonical, type ObjectValue, type Value } from "./json.js";

export class DocumentError extends Error {}

/** NAME_RAIL or NAME_RAIL(issuer) */
const assetId = /^[A-Z0-9_]+_[A-Z0-9_]*[A-Z0-9](?:\([\x21-\x27\x2a-\x7e]+\))?$/;
const schemaId = /^oa(?:\.[a-z][a-z0-9_]{0,63}){1,4}\.v[1-9][0-9]{0,5}$/;
export const token = /^[a-z0-9_]{1,64}$/;

/** The maximum size of quotes, acceptances, receipts and seals. */
const maxBytes = 64 << 10;

export function isAssetId(text: string): boolean {
  return text.length <= 256 && assetId.test(text) && text.indexOf("_", 1) > 0;
}

export function isSchemaId(text: string): boolean {
  return schemaId.test(text);
}

/** A short line without control characters. */
export function isLine(text: string): boolean {
  return text !== "" && utf8(text).length <= 256 && !/[\u0000-\u001f\u007f]/.test(text);
}

/** A hash; all zeros are refused. */
export function isHash(text: string): boolean {
  return isHex(text, 32) && !/^0*$/.test(text);
}

/** An x-only key in hex, which must be on the curve. */
export function isKey(text: string): boolean {
  return isHex(text, 32) && isPoint(`02${text}`);
}

function isPoint(hex: string): boolean {
  try {
    secp256k1.Point.fromBytes(hexToBytes(hex));
    return true;
  } catch {
    return false;
  }
}

/** The fields of a document in canonical form. */
export function readFields(text: string, most = maxBytes): Fields {
  if (utf8(text).length > most) throw new DocumentError(`more than ${most} bytes`);
  return new Fields(parseCanonical(text));
}

/** Takes the fields of an object one by one; end refuses the remaining ones. */
export class Fields {
  private readonly left: ObjectValue;

  constructor(value: Value) {
    if (!(value instanceof Map)) throw new DocumentError("not an object");
    this.left = new Map(value);
  }

  has(name: string): boolean {
    return this.left.has(name);
  }

  /** The field must be present and null; the result is "". */
  none = (name: string): string => {
    if (this.take(name) !== null) throw new DocumentError(`${name} is not null`);
    return "";
  };

  take(name: string): Value {
    const value = this.left.get(name);
    if (value === undefined) throw new DocumentError(`${name} is missing`);
    this.left.delete(name);
    return value;
  }

  end(): void {
    const [name] = this.left.keys();
    if (name !== undefined) throw new DocumentError(`${name} is unknown`);
  }

  version(): void {
    if (this.take("version") !== 1) throw new DocumentError("version is not 1");
  }

  text(name: string, ok: (text: string) => boolean): string {
    const value = this.take(name);
    if (typeof value !== "string" || !ok(value)) throw new DocumentError(`${name} is malformed`);
    return value;
  }

  orNull(name: string, ok: (text: string) => boolean): string | null {
    if (this.left.get(name) !== null) return this.text(name, ok);
    this.left.delete(name);
    return null;
  }

  whole(name: string, min: number): number {
    const value = this.take(name);
    if (typeof value !== "number" || !Number.isSafeInteger(value) || value < min) throw new DocumentError(`${name} is malformed`);
    return value;
  }

  wholeOrNull(name: string, min: number): number | null {
    if (this.left.get(name) !== null) return this.whole(name, min);
    this.left.delete(name);
    return null;
  }

  id = (name: string) => this.text(name, (s) => isHex(s, 32));
  hash = (name: string) => this.text(name, isHash);
  digest = (name: string) => this.text(name, (s) => isDigest(s) && isHash(s.slice(7)));
  line = (name: string) => this.text(name, isLine);
  schema = (name: string) => this.text(name, isSchemaId);
  oneOf = (name: string, words: string[]) => this.text(name, (s) => words.includes(s));
  time = (name: string) => Date.parse(this.text(name, isTime)) / 1000;
}

/** A compressed key of a node in hex, which must be on the curve. */
export function isNode(text: string): boolean {
  return isHex(text, 33) && isPoint(text);
}

/**
 * RFC 3339 in UTC with whole seconds. Date reads the 30th of February as the
 * 2nd of March, so it is compared with the text.
 */
export function isTime(text: string): boolean {
  const form = /^(?:19[7-9]|[2-9][0-9]{2})[0-9]-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$/;
  if (!form.test(text)) return false;
  const date = new Date(text);
  return !Number.isNaN(date.getTime()) && date.toISOString() === text.replace("Z", ".000Z");
}
