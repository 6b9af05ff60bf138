/**
 * The documents of a bundle: strict decoders that throw on any other shape.
 * Fields have the names of the documents, so that a check reads like its line
 * in docs/protocol/receipt.md.
 */
import { decodeNpub } from "./bech32.js";
import { DocumentError, Fields, isAssetId, isHash, isKey, isLine, isNode, isSchemaId, isTime, readFields, token } from "./fields.js";
import { hashHex, hexToBytes, isDigest, isHex, utf8 } from "./hex.js";
import type { Value } from "./json.js";

export type Purpose = "result" | "engagement";

export interface Quote {
  purpose: Purpose;
  request_id: string;
  job_hash: string;
  schema_id: string;
  buyer: string;
  provider: string;
  price_msats: number;
  /** Unix seconds */
  expires_at: number;
  mode: string;
  delivery: string;
  policy_bundle_id: string;
  payment_hash: string | null;
  payee_node: string | null;
  /** ids of the events that are the job's inputs */
  inputs: string[];
  /** what is promised to be kept, in ms, null for ever, by part; undefined without a promise */
  retention?: ReadonlyMap<string, number | null>;
}

/** What a provider says that it has pruned. */
export interface Pruning {
  receipt_id: string;
  request_id: string;
  /** at is the text of a time */
  parts: { part: string; at: string }[];
}

export interface Acceptance {
  request_id: string;
  quote_hash: string;
  payment_hash: string;
  price_msats: number;
  approval_rule_id: string | null;
}

/** For an engagement fee, the fields about work are null in JSON and "" here. */
export interface Receipt {
  purpose: Purpose;
  receipt_id: string;
  session_id: string;
  trajectory_hash: string;
  redacted_trajectory_hash: string;
  replay_hash: string;
  policy_bundle_id: string;
  job_hash: string;
  schema_id: string;
  payment_proof: { type: string; value: string };
  rail: string;
  asset_id: string;
  amount_msats: number;
  provider_id: string;
  buyer_id: string;
  /** provider_id and buyer_id as x-only keys in hex */
  provider: string;
  buyer: string;
  approval_rule_id: string | null;
  /** Unix seconds */
  timestamp: number;
  mode: string;
  delivery: string;
  request_event_id: string;
  result_event_id: string;
  acceptance_event_id: string | null;
  output_hash: string;
  agreement_hash: string | null;
  plan_hash: string;
  quote_hash: string;
  bolt11: string;
  payment_hash: string;
  payee_node: string;
  verification: Verification;
  sequence: number;
  previous_receipt_hash: string | null;
}

/** How the result is verified, according to the request. */
export interface Verification {
  adjudication: string;
  redundancy: number;
  tier: string;
}

export interface Seal {
  output_hash: string;
  agreement_hash: string | null;
  plan_hash: string;
  trajectory_hash: string;
  redacted_trajectory_hash: string;
  replay_hash: string;
  contents: SealedContent[];
}

export interface SealedContent {
  role: string;
  digest: string;
  size: number;
}

const modes = ["hold", "prepay", "postpay", "free"];
const deliveries = ["plain", "sealed"];
const proofTypes = ["lightning_preimage", "cashu_proof", "onchain_txid"];
const rails = ["lightning", "cashu", "onchain", "taproot_assets"];
const maxInputs = 4;
const maxRedundancy = 16;
/** The possible tiers of an adjudication. */
const tiers: Readonly<Record<string, readonly string[]>> = {
  none: ["objective", "reputation_only"],
  majority_vote: ["redundancy_consensus"],
  merge: ["redundancy_consensus"],
  judge_model: ["judge"],
};
const maxPolicyBytes = 1 << 20;
const maxInvoice = 7089; // characters: the capacity of the largest QR code

export function parseQuote(text: string): Quote {
  const f = readFields(text);
  f.version();
  const mode = f.oneOf("mode", modes);
  const price = f.whole("price_msats", 0);
  if ((mode === "free") !== (price === 0)) throw new DocumentError("price_msats does not fit the mode");
  const purpose = f.oneOf("purpose", ["result", "engagement"]) as Purpose;
  f.text("cancellation", (s) => token.test(s));
  f.text("nonce", (s) => isHex(s, 16));
  const inputs = f.take("inputs");
  if (!Array.isArray(inputs) || inputs.length > maxInputs || !inputs.every((id) => typeof id === "string" && isHex(id, 32))) {
    throw new DocumentError("inputs are no list of up to 4 event ids");
  }
  const quote: Quote = {
    purpose,
    request_id: f.id("request_id"),
    job_hash: f.digest("job_hash"),
    schema_id: f.schema("schema_id"),
    buyer: f.text("buyer", isKey),
    provider: f.text("provider", isKey),
    price_msats: price,
    expires_at: f.time("expires_at"),
    mode,
    delivery: f.oneOf("delivery", deliveries),
    policy_bundle_id: f.digest("policy_bundle_id"),
    payment_hash: f.orNull("payment_hash", isHash),
    payee_node: f.orNull("payee_node", isNode),
    inputs: inputs as string[],
  };
  if (f.has("retention")) quote.retention = parseRetention(f.take("retention"));
  f.end();
  if (mode === "free" && (quote.payment_hash !== null || quote.payee_node !== null)) throw new DocumentError("a free quote names a payment");
  if (quote.payment_hash === null && (mode === "hold" || quote.delivery === "sealed")) throw new DocumentError("payment_hash is null, which hold and sealed do not allow");
  if (quote.delivery === "sealed" && mode !== "hold" && mode !== "postpay") throw new DocumentError("delivery does not fit the mode");
  checkFee(quote);
  return quote;
}

/** What may be pruned, in order. */
const keptParts = ["results", "artifacts", "trajectories", "journals", "blobs", "events"];
/** A hundred years. */
const maxKeepMs = 100 * 366 * 24 * 3_600_000;

function parseRetention(value: Value): Map<string, number | null> {
  const f = new Fields(value);
  const dispute = f.whole("dispute_window_ms", 1);
  if (dispute > maxKeepMs) throw new DocumentError("retention.dispute_window_ms is out of range");
  const kept = new Map<string, number | null>();
  for (const part of keptParts) {
    const keep = f.wholeOrNull(`${part}_ms`, dispute);
    if (keep !== null && keep > maxKeepMs) throw new DocumentError(`retention.${part}_ms is out of range`);
    kept.set(part, keep);
  }
  f.end();
  return kept;
}

export function parsePruning(text: string): Pruning {
  const f = readFields(text);
  f.version();
  const list = listOf(f.take("parts"));
  if (list.length === 0) throw new DocumentError("parts are none");
  let last = -1;
  const parts = list.map((value) => {
    const p = new Fields(value);
    const part = p.oneOf("part", keptParts);
    const at = p.text("at", isTime);
    p.end();
    if (keptParts.indexOf(part) <= last) throw new DocumentError("parts are not in order");
    last = keptParts.indexOf(part);
    return { part, at };
  });
  const pruning: Pruning = { receipt_id: f.line("receipt_id"), request_id: f.id("request_id"), parts };
  f.end();
  return pruning;
}

export function parseAcceptance(text: string): Acceptance {
  const f = readFields(text);
  f.version();
  const acceptance: Acceptance = {
    request_id: f.id("request_id"),
    quote_hash: f.digest("quote_hash"),
    payment_hash: f.hash("payment_hash"),
    price_msats: f.whole("price_msats", 1),
    approval_rule_id: f.orNull("approval_rule_id", isLine),
  };
  f.end();
  return acceptance;
}

/** An engagement fee is paid before the attempt, and nothing is delivered for it. */
function checkFee(terms: Quote | Receipt): void {
  if (terms.purpose === "engagement" && (terms.mode !== "prepay" || terms.delivery !== "plain")) {
    throw new DocumentError("an engagement fee is prepaid, with delivery plain");
  }
}

export function parseReceipt(text: string): Receipt {
  const f = readFields(text);
  f.version();
  const fee = f.has("purpose");
  if (fee) f.oneOf("purpose", ["engagement"]);
  const work = { digest: fee ? f.none : f.digest, line: fee ? f.none : f.line, id: fee ? f.none : f.id };
  const receipt: Receipt = {
    purpose: fee ? "engagement" : "result",
    receipt_id: f.line("receipt_id"),
    session_id: work.line("session_id"),
    trajectory_hash: work.digest("trajectory_hash"),
    redacted_trajectory_hash: work.digest("redacted_trajectory_hash"),
    replay_hash: work.digest("replay_hash"),
    policy_bundle_id: f.digest("policy_bundle_id"),
    job_hash: f.digest("job_hash"),
    schema_id: f.schema("schema_id"),
    payment_proof: parseProof(f.take("payment_proof")),
    rail: f.oneOf("rail", rails),
    asset_id: f.text("asset_id", isAssetId),
    amount_msats: f.whole("amount_msats", 1),
    provider_id: f.line("provider_id"),
    buyer_id: f.line("buyer_id"),
    provider: "",
    buyer: "",
    approval_rule_id: f.orNull("approval_rule_id", isLine),
    timestamp: f.time("timestamp"),
    mode: f.oneOf("mode", modes.slice(0, 3)), // a free job has no receipt
    delivery: f.oneOf("delivery", deliveries),
    request_event_id: f.id("request_event_id"),
    result_event_id: work.id("result_event_id"),
    acceptance_event_id: f.orNull("acceptance_event_id", (s) => isHex(s, 32)),
    output_hash: work.digest("output_hash"),
    agreement_hash: f.orNull("agreement_hash", isDigest),
    plan_hash: work.digest("plan_hash"),
    quote_hash: f.digest("quote_hash"),
    bolt11: f.text("bolt11", (s) => s !== "" && utf8(s).length <= maxInvoice),
    payment_hash: f.hash("payment_hash"),
    payee_node: f.text("payee_node", isNode),
    verification: parseVerification(f.take("verification")),
    sequence: f.whole("sequence", 1),
    previous_receipt_hash: f.orNull("previous_receipt_hash", isDigest),
  };
  f.end();
  receipt.provider = keyOf(receipt.provider_id);
  receipt.buyer = keyOf(receipt.buyer_id);
  if (receipt.receipt_id !== receiptId(receipt)) throw new DocumentError("receipt_id is not that of quote_hash and payment_hash");
  if ((receipt.sequence === 1) !== (receipt.previous_receipt_hash === null)) {
    throw new DocumentError("previous_receipt_hash is null for sequence 1, and for no other");
  }
  if (receipt.delivery === "sealed" && receipt.mode === "prepay") throw new DocumentError("delivery does not fit the mode");
  if (fee && receipt.agreement_hash !== null) throw new DocumentError("the receipt of an engagement fee names work");
  checkFee(receipt);
  return receipt;
}

function parseVerification(value: Value): Verification {
  const f = new Fields(value);
  const adjudication = f.oneOf("adjudication", Object.keys(tiers));
  const verification = { adjudication, redundancy: f.whole("redundancy", 1), tier: f.oneOf("tier", [...(tiers[adjudication] ?? [])]) };
  f.end();
  if (verification.redundancy > maxRedundancy) throw new DocumentError("verification.redundancy is out of range");
  return verification;
}

function parseProof(value: Value): Receipt["payment_proof"] {
  const f = new Fields(value);
  const proof = { type: f.oneOf("type", proofTypes), value: f.line("value") };
  f.end();
  return proof;
}

function keyOf(npub: string): string {
  const key = decodeNpub(npub);
  if (key === undefined || !isKey(key)) throw new DocumentError("a party is no npub");
  return key;
}

function receiptId(r: Receipt): string {
  const hashes = [...hexToBytes(r.quote_hash.slice(7)), ...hexToBytes(r.payment_hash)];
  return `rcpt_${hashHex(Uint8Array.from([...utf8("lightwork/receipt/v1"), ...hashes])).slice(0, 32)}`;
}

/**
 * Checks a policy manifest. It returns nothing, because callers identify a
 * manifest by its hash.
 */
export function checkPolicy(text: string): void {
  const f = readFields(text, maxPolicyBytes);
  f.version();
  f.line("producer");
  const sold = new Set<string>();
  for (const value of listOf(f.take("prices"))) {
    const offer = new Fields(value);
    const schema = offer.schema("schema_id");
    if (sold.has(schema)) throw new DocumentError("prices have a job type twice");
    sold.add(schema);
    const named = listOf(offer.take("modes"));
    if (named.length === 0 || new Set(named).size !== named.length || !named.every((m) => typeof m === "string" && modes.includes(m))) {
      throw new DocumentError("prices.modes is malformed");
    }
    checkPrice(offer.take("price"));
    offer.end();
  }
  for (const job of membersOf(f.take("jobs"), isSchemaId)) {
    job.oneOf("verification_mode", ["objective", "subjective"]);
    const rules = new Fields(job.take("hash_rules"));
    for (const name of ["algorithm", "canonicalization", "scope"]) rules.line(name);
    rules.end();
    job.digest("document_hash");
    job.end();
  }
  for (const tool of membersOf(f.take("tools"), isSchemaId)) {
    tool.line("tool");
    for (const name of ["version", "manifest_hash"]) tool.text(name, isLineOrNone);
    tool.end();
  }
  for (const rows of valuesOf(f.take("tables"), isLine)) {
    for (const value of listOf(rows)) {
      const row = new Fields(value);
      row.line("tag");
      row.line("handler");
      row.end();
    }
  }
  const limits = new Fields(f.take("limits"));
  for (const name of ["concurrent", "queue", "quote_ttl_ms", "free_pow_bits", "context_tokens"]) limits.whole(name, 0);
  limits.end();
  const images = new Fields(f.take("images"));
  images.text("host", isLineOrNone);
  if (!listOf(images.take("registered")).every((image) => typeof image === "string" && isLine(image))) throw new DocumentError("images.registered is malformed");
  images.end();
  const models = new Fields(f.take("models"));
  for (const name of ["name", "embed"]) models.text(name, isLineOrNone);
  models.end();
  f.end();
}

function checkPrice(value: Value): void {
  const f = new Fields(value);
  for (const name of ["base_msats", "per_minute_msats", "input_tokens_per_1k_msats"]) f.whole(name, 0);
  const output = f.whole("output_tokens_per_1k_msats", 0);
  const most = f.whole("max_output_tokens", 0);
  if (f.has("engagement_msats")) f.whole("engagement_msats", 1);
  f.end();
  if (output > 0 && most === 0) throw new DocumentError("prices.price has no limit of output");
}

function isLineOrNone(text: string): boolean {
  return text === "" || isLine(text);
}

function listOf(value: Value): Value[] {
  if (!Array.isArray(value)) throw new DocumentError("not a list");
  return value;
}

/** The values of an object whose names are not fixed. */
function valuesOf(value: Value, ok: (name: string) => boolean): Value[] {
  if (!(value instanceof Map)) throw new DocumentError("not an object");
  for (const name of value.keys()) if (!ok(name)) throw new DocumentError(`${name} is malformed`);
  return [...value.values()];
}

function membersOf(value: Value, ok: (name: string) => boolean): Fields[] {
  return valuesOf(value, ok).map((member) => new Fields(member));
}

export function parseSeal(text: string): Seal {
  const f = readFields(text);
  f.version();
  f.id("salt");
  const contents = f.take("contents");
  if (!Array.isArray(contents)) throw new DocumentError("contents is no list");
  const seal: Seal = {
    output_hash: f.digest("output_hash"),
    agreement_hash: f.orNull("agreement_hash", isDigest),
    plan_hash: f.digest("plan_hash"),
    trajectory_hash: f.digest("trajectory_hash"),
    redacted_trajectory_hash: f.digest("redacted_trajectory_hash"),
    replay_hash: f.digest("replay_hash"),
    contents: contents.map(parseContent),
  };
  f.end();
  const results = seal.contents.filter((c) => c.role === "result").length;
  if (seal.contents.length > 256 || results !== 1) throw new DocumentError("contents are more than 256, or not one result");
  return seal;
}

function parseContent(value: Value): SealedContent {
  const f = new Fields(value);
  const content = { role: f.oneOf("role", ["result", "replay", "artifact"]), digest: f.digest("digest"), size: f.whole("size", 0) };
  f.end();
  return content;
}
