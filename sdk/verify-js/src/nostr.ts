import { schnorr } from "@noble/curves/secp256k1.js";
import { hashHex, hexToBytes, isHex } from "./hex.js";
import { parseJson, type Value } from "./json.js";

/**
 * A Nostr event (NIP-01) whose fields have the right types; id and signature
 * are unchecked.
 */
export interface Event {
  id: string;
  pubkey: string;
  created_at: number;
  kind: number;
  tags: string[][];
  content: string;
  sig: string;
}

const maxTags = 2000;
const maxItems = 1000;

const order = ["id", "pubkey", "created_at", "kind", "tags", "content", "sig"];

/** Decodes an event in the only form that a bundle allows; throws on any other. */
export function parseEvent(text: string): Event {
  const value = parseJson(text);
  if (!(value instanceof Map) || [...value.keys()].join() !== order.join()) throw new Error("not the fields of an event");
  const event: Event = {
    id: hexField(value.get("id"), 32),
    pubkey: hexField(value.get("pubkey"), 32),
    created_at: whole(value.get("created_at"), Number.MAX_SAFE_INTEGER),
    kind: whole(value.get("kind"), 65535),
    tags: tagsOf(value.get("tags")),
    content: stringOf(value.get("content")),
    sig: hexField(value.get("sig"), 64),
  };
  if (encodeEvent(event) !== text) throw new Error("not the form of an event in a bundle");
  return event;
}

/**
 * The form in a bundle: this order of fields, no white space, all control
 * characters escaped.
 */
export function encodeEvent(e: Event): string {
  const tags = encodeTags(e.tags, escaped);
  return `{"id":"${e.id}","pubkey":"${e.pubkey}","created_at":${e.created_at},"kind":${e.kind},"tags":${tags},` +
    `"content":${escaped(e.content)},"sig":"${e.sig}"}`;
}

/**
 * Computes the NIP-01 id; with `escapeControls`, as clients do that escape
 * every control character.
 */
export function eventId(e: Event, escapeControls = false): string {
  const quote = escapeControls ? escaped : bare;
  return hashHex(`[0,"${e.pubkey}",${e.created_at},${e.kind},${encodeTags(e.tags, quote)},${quote(e.content)}]`);
}

/**
 * Whether the id is that of the fields, in either spelling, and sig a BIP-340
 * signature of it.
 */
export function eventIsSigned(e: Event): boolean {
  if (e.id !== eventId(e) && e.id !== eventId(e, true)) return false;
  try {
    return schnorr.verify(hexToBytes(e.sig), hexToBytes(e.id), hexToBytes(e.pubkey));
  } catch {
    return false;
  }
}

/** The kinds of documents in the events that are read, by the tag "domain". */
export type Domain = "request" | "acceptance" | "result" | "receipt" | "quote" | "key_change" | "key_acceptance" | "pruned";

/** The name of the tag with the domain. */
export function domainTag(domain: Domain): string[] {
  return ["domain", `lightwork/${domain}/v1`];
}

/**
 * Throws unless the tags name this domain, exactly once. Requests and results
 * of programs without domains are `allowed` to name none.
 */
export function demandDomain(e: Event, domain: Domain, allowed = false): void {
  const found = tagsNamed(e, "domain");
  if (allowed && found.length === 0) return;
  const [name, value] = domainTag(domain);
  const wanted = JSON.stringify([name, value]);
  if (found.length === 0) throw new Error(`it has no tag ${wanted}, and without it any event that reads like one would count`);
  if (found.length > 1) throw new Error("it has more than one tag domain");
  if (JSON.stringify(found[0]) !== wanted) throw new Error(`its tag domain is not ${wanted}`);
}

/** Returns the tags with this name. */
export function tagsNamed(e: Event, name: string): string[][] {
  return e.tags.filter((tag) => tag[0] === name);
}

/**
 * Returns the value of the only tag with this name; undefined if there are none
 * or several.
 */
export function onlyTag(e: Event, name: string): string | undefined {
  const found = tagsNamed(e, name);
  return found.length === 1 ? found[0]?.[1] : undefined;
}

function encodeTags(tags: string[][], quote: (s: string) => string): string {
  return `[${tags.map((tag) => `[${tag.map(quote).join(",")}]`).join(",")}]`;
}

/**
 * JSON.stringify escapes the characters of NIP-01 and, as \u00xx, the other
 * control characters.
 */
function escaped(text: string): string {
  return JSON.stringify(text);
}

/**
 * In NIP-01 only these seven are escaped; other control characters are written
 * as they are.
 */
const nip01: Record<string, string> = {
  '"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f",
};

function bare(text: string): string {
  return `"${text.replace(/["\\\n\r\t\b\f]/g, (c) => nip01[c] ?? c)}"`;
}

function hexField(value: Value | undefined, bytes: number): string {
  const text = stringOf(value);
  if (!isHex(text, bytes)) throw new Error("not lower-case hex of the right length");
  return text;
}

function whole(value: Value | undefined, max: number): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < 0 || value > max) throw new Error("not a whole number in range");
  return value;
}

function stringOf(value: Value | undefined): string {
  if (typeof value !== "string") throw new Error("not a string");
  return value;
}

function tagsOf(value: Value | undefined): string[][] {
  if (!Array.isArray(value)) throw new Error("tags are no list");
  if (value.length > maxTags) throw new Error(`more than ${maxTags} tags`);
  return value.map((tag) => {
    if (!Array.isArray(tag) || tag.length > maxItems) throw new Error("a tag is no list, or too long");
    return tag.map(stringOf);
  });
}
