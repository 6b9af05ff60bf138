import { canonical, type ObjectValue, type Value } from "../src/json.js";
import type { Random } from "./random.js";

/** Raw text that replaces a value: text that no encoder would write. */
const rawMark = "@raw ";
const raws = [
  "1.0", "1e0", "1e2", "-0", "-0.0", "0.1", "1e-7", "1.5", "9007199254740991", "9007199254740992", "1e16", "1e300", "1e400", "5e-324",
  "01", "+1", "1.", ".5", "nul", "NaN", "1,\"dup\":1,\"dup\":2", "\"\\ud800\"", "\"\\u0041\"", "\"\\/\"", "\"\u007f\"", "[[[[]]]]", "",
];
const strings = [
  "", "x", "X", " ", "\n", "\0", "é", "e\u0301", "😀", "\u2028", "\ufeff", "\uffff", "__proto__", "toString", "1", "01", "-1", "9007199254740993",
  "hold", "prepay", "postpay", "free", "plain", "sealed", "lightning", "cashu", "BTC_LN", "BTC", "PLAY_LN", "BTC_LN(regtest)", "USD_CASHU(mint)",
  "oa.embedding.v1", "result", "held", "received", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00.000Z", "2026-01-01t00:00:00z",
  "2026-01-01T24:00:00Z", "2026-01-01T00:00:60Z", "2026-01-01T00:00:00+00:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
  "sha256:", "SHA256:" + "a".repeat(64), "sha256:" + "a".repeat(64), "sha256:" + "A".repeat(64), "a".repeat(64), "0".repeat(64), "f".repeat(64),
  "02" + "a".repeat(64), "04" + "a".repeat(64), "../x", "a/../b", "a//b", "/a", "a/", ".", "é/😀",
];
const scalars: Value[] = [null, true, false, 0, 1, -1, 2, 1.5, 0.1, 1e-7, 65536, 4294967296, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER];

/**
 * Changes one place of a value; the result may contain a raw mark, which
 * `write` resolves.
 */
export function mutateValue(value: Value, random: Random): Value {
  const places = placesOf(value);
  const place = random.pick(places);
  const other = random.pick(places);
  return replaceAt(value, place, (old) => changed(old, random, valueAt(value, other)));
}

type Place = (string | number)[];

function placesOf(value: Value): Place[] {
  const below = Array.isArray(value) ? value.map((v, i) => [i, v] as const) : value instanceof Map ? [...value] : [];
  return [[], ...below.flatMap(([key, v]) => placesOf(v).map((p) => [key, ...p]))];
}

function valueAt(value: Value, [key, ...rest]: Place): Value {
  if (key === undefined) return value;
  return valueAt(Array.isArray(value) ? (value[key as number] ?? null) : ((value as ObjectValue).get(key as string) ?? null), rest);
}

function replaceAt(value: Value, [key, ...rest]: Place, change: (old: Value) => Value): Value {
  if (key === undefined) return change(value);
  if (Array.isArray(value)) return value.map((v, i) => (i === key ? replaceAt(v, rest, change) : v));
  return new Map([...(value as ObjectValue)].map(([k, v]) => [k, k === key ? replaceAt(v, rest, change) : v]));
}

function changed(old: Value, random: Random, other: Value): Value {
  switch (random.below(9)) {
    case 0:
      return random.pick(scalars);
    case 1:
      return random.pick(strings);
    case 2:
      return rawMark + random.pick(raws);
    case 3:
      return other;
    case 4:
      return random.pick<Value>([[], new Map(), [old], [old, old], new Map([["x", old]])]);
  }
  if (old instanceof Map) return changedObject(old, random, other);
  if (Array.isArray(old)) return changedArray(old, random, other);
  if (typeof old === "number") return random.pick([old + 1, old - 1, -old, old * 2, old + 0.5]);
  return typeof old === "string" ? changedString(old, random) : random.pick(scalars);
}

function changedObject(old: ObjectValue, random: Random, other: Value): ObjectValue {
  const copy: ObjectValue = new Map(old);
  if (copy.size === 0 || random.below(3) === 0) return copy.set(random.pick(strings), other);
  const key = random.pick([...copy.keys()]);
  const value = copy.get(key) ?? null;
  copy.delete(key);
  if (random.below(3) === 0) copy.set(random.pick([key.toUpperCase(), `${key} `, random.pick(strings)]), value);
  return copy;
}

function changedArray(old: Value[], random: Random, other: Value): Value[] {
  const i = random.below(old.length + 1);
  const variants = [old.toSpliced(i, 1), old.toSpliced(i, 0, other), old.toSpliced(i, 0, ...old.slice(i, i + 1)), old.toReversed(), [...old.slice(i), ...old.slice(0, i)]];
  return random.pick(variants);
}

function changedString(old: string, random: Random): string {
  const i = random.below(old.length + 1);
  return random.pick([
    old.slice(0, i), old.slice(0, i) + random.pick(strings) + old.slice(i), old.toUpperCase(), old + old,
    old.slice(0, i) + random.pick([..."09afz "]) + old.slice(i + 1), old + " ", old + "\0",
  ]).toWellFormed();
}

/** Canonical JSON or, occasionally, another spelling of it. */
export function write(value: Value, random?: Random): string {
  const text = random && random.below(8) === 0 ? loosely(value) : canonical(value);
  return text.replaceAll(/"@raw ((?:[^"\\]|\\.)*)"/g, (quoted) => (JSON.parse(quoted) as string).slice(rawMark.length));
}

function loosely(value: Value): string {
  if (Array.isArray(value)) return `[ ${value.map(loosely).join(", ")} ]`;
  if (!(value instanceof Map)) return JSON.stringify(value);
  return `{${[...value].reverse().map(([k, v]) => `${JSON.stringify(k)} : ${loosely(v)}`).join(",\n")}}`;
}
