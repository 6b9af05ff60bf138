import { decodeInvoice, isNetwork, networks, type Invoice } from "./bolt11.js";
import { UnusableError, type Bundle } from "./bundle.js";
import { Lacking, require, type Steps } from "./claim.js";
import { parseQuote, parseReceipt, type Quote, type Receipt } from "./documents.js";
import { isKey, isNode } from "./fields.js";
import { decodeNpub } from "./bech32.js";
import { digest, fromUtf8, isHex } from "./hex.js";
import { KeyHistory } from "./keys.js";
import type { ObjectValue } from "./json.js";
import { demandDomain, eventIsSigned, parseEvent, type Domain, type Event } from "./nostr.js";

/** Facts that the user knows from elsewhere. Keys are npub or hex. */
export interface Pins {
  provider?: string;
  buyer?: string;
  /** compressed key of the Lightning node in hex */
  payee?: string;
  network?: string;
  /** keys whose holder's other keys, as far as `keys` joins them, count as theirs */
  also?: string[];
  /** the known key changes: events, one a line */
  keys?: string;
}

/** The keys of pins as hex, and what is known of their ends. */
interface Known {
  also: string[];
  keys: KeyHistory;
}

/** The input of the claims. */
export interface Evidence {
  bundle: Bundle;
  pins: Pins;
  known: Known;
  receipt: Receipt;
  receiptText: string;
  /** the invoice, or why it is none */
  invoice: Invoice | Error;
  /** the kind of the request that the receipt names, once that is found */
  requestKind?: number;
  /** the request as it was run, once steps 2.1 to 2.11 are proved */
  request?: ObjectValue;
  /** set while the job is graded: the request names no schema */
  untyped?: boolean;
  /** why, by part, of what the provider says that it has pruned */
  gone?: ReadonlyMap<string, string>;
}

/** Step 0: a bundle that fails here is unusable. */
export function openEvidence(bundle: Bundle, pins: Pins): Evidence {
  const data = bundle.get("RECEIPT.json");
  if (!data) throw new UnusableError("0.2: RECEIPT.json is not in the bundle");
  let receiptText: string;
  let receipt: Receipt;
  try {
    receiptText = fromUtf8(data);
    receipt = parseReceipt(receiptText);
  } catch (error) {
    throw new UnusableError(`0.2: RECEIPT.json is no receipt: ${(error as Error).message}`);
  }
  return { bundle, pins: readPins(pins), known: readKnown(pins), receipt, receiptText, invoice: tryInvoice(receipt.bolt11) };
}

/** 0.1: the pins are well-formed. Keys are converted to hex. */
function readPins(pins: Pins): Pins {
  const read: Pins = {};
  for (const name of ["provider", "buyer"] as const) {
    const pin = pins[name];
    if (pin !== undefined) read[name] = readKey(name, pin);
  }
  if (pins.payee !== undefined) {
    if (!isNode(pins.payee)) throw new UnusableError("0.1: payee is no key of 66 hex digits");
    read.payee = pins.payee;
  }
  if (pins.network !== undefined) {
    if (!isNetwork(pins.network)) throw new UnusableError(`0.1: network is none of ${networks.join(", ")}, no chain:NAME and no cashu:MINT`);
    read.network = pins.network;
  }
  return read;
}

function readKey(name: string, text: string): string {
  const key = isHex(text, 32) ? text : decodeNpub(text);
  if (key === undefined || !isKey(key)) throw new UnusableError(`0.1: ${name} is neither an npub nor 64 hex digits`);
  return key;
}

function readKnown(pins: Pins): Known {
  return { also: (pins.also ?? []).map((key) => readKey("also", key)), keys: KeyHistory.read(pins.keys ?? "") };
}

/** Whether a key is the pinned one, or another of the same holder that was asked for. */
export function isPinned(e: Evidence, key: string, pin: string): boolean {
  return key === pin || (isAsked(e, key) && e.known.keys.joins(key, pin));
}

/** Whether the other keys of this key's holder were asked for. */
export function isAsked(e: Evidence, key: string): boolean {
  return e.known.also.some((also) => e.known.keys.joins(also, key));
}

/** The step that refuses what a key signed after its end; none if no end is known. */
export function aliveStep(s: Steps, number: string, e: Evidence, whose: string, key: string, at: number): void {
  const end = e.known.keys.end(key);
  if (end) s.demand(number, `the ${whose}'s key had not ended when it signed`, at <= end.at, `the key was ${end.reason} before`);
}

function tryInvoice(bolt11: string): Invoice | Error {
  try {
    return decodeInvoice(bolt11);
  } catch (error) {
    return error as Error;
  }
}

/** The steps "bolt11 decodes" of several claims. */
export function invoiceStep(steps: Steps, number: string, e: Evidence): Invoice {
  const { invoice } = e;
  steps.demand(number, "bolt11 decodes, and its signature gives a key", !(invoice instanceof Error), String(invoice));
  return invoice as Invoice;
}

/** part is what the provider may have pruned. */
export function textOf(e: Evidence, name: string, part = ""): string {
  const data = e.bundle.get(name);
  if (!data) throw new Lacking(e.gone?.get(part) ?? "it is not there");
  return fromUtf8(data);
}

/**
 * The steps "is in the bundle" and "its id, signature and domain are valid";
 * undefined if the event is missing.
 */
export function eventSteps(steps: Steps, numbers: [string, string], e: Evidence, name: string, domain: Domain): Event | undefined {
  const event = steps.step(numbers[0], `${name} is in the bundle, in the form of an event`, () => parseEvent(textOf(e, name)));
  if (!event) return undefined;
  steps.step(numbers[1], "its domain is that of the document, its id that of its fields, and its signature is valid", () => {
    demandDomain(event, domain, domain === "request");
    require(eventIsSigned(event), "it is not");
  });
  return event;
}

/** The quote that the receipt names; undefined if the bundle has none, or another one. */
export function namedQuote(e: Evidence): Quote | undefined {
  const data = e.bundle.get("QUOTE.json");
  if (!data || digest(data) !== e.receipt.quote_hash) return undefined;
  try {
    return parseQuote(fromUtf8(data));
  } catch {
    return undefined;
  }
}
