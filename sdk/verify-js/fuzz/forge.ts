/**
 * Bundles made with our own keys: one place is changed, and everything derived
 * from it is hashed and signed again. So the change is not detected by a hash,
 * but only by the check that it concerns.
 */
import { schnorr } from "@noble/curves/secp256k1.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { decodeBech32, encodeBech32 } from "../src/bech32.js";
import type { Bundle } from "../src/bundle.js";
import type { Pins } from "../src/evidence.js";
import { bytesToHex, digest, fromUtf8, hashHex, hexToBytes, utf8 } from "../src/hex.js";
import { jobType } from "../src/jobtypes.js";
import { canonical, parseJson, type ObjectValue, type Value } from "../src/json.js";
import { domainTag, encodeEvent, eventId, parseEvent, type Event } from "../src/nostr.js";
import { verificationOf } from "../src/verify_record.js";
import { changedPrefix, changedWords, payee, replaceField, signInvoice, toWords } from "./invoice.js";
import type { Work } from "./jobs.js";
import { mutateValue, write } from "./mutate.js";
import type { Random } from "./random.js";

const secrets = { provider: sha256(utf8("provider")), buyer: sha256(utf8("buyer")) };
const provider = bytesToHex(schnorr.getPublicKey(secrets.provider));
const buyer = bytesToHex(schnorr.getPublicKey(secrets.buyer));

export const pins: Pins = { provider, buyer, payee };

const stages = [
  "input", "request", "terms", "terms", "requestKind", "quote", "quoteEvent", "quoteEvent", "invoice", "invoice", "acceptance", "acceptanceEvent", "replay", "replay", "replay", "result",
  "result", "result", "resultEvent", "seal", "receipt", "receiptEvent", "signature", "signature", "previous", "policy", "policy", "none",
] as const;
type Stage = (typeof stages)[number];

/**
 * Replaces the parties of a bundle by ours, with one random change. `job`
 * replaces the work.
 */
export function forge(bundle: Bundle, random: Random, job?: Work): Map<string, Uint8Array> {
  return new Forger(bundle, random, job).run();
}

/** Spellings of an amount, one of which is right. */
const amounts = [
  "50000", "+50000", "0000050000", "-50000", "50000.0", "5e4", "0x7a120", "50_000", " 50000", "50000 ", "50000\n", "", "0", "00", "-0", "21000", "20999",
  "9007199254740991", "9007199254740992", "9007199254740993", "9223372036854775807", "99999999999999999999", "1".repeat(400), "٥٠٠٠٠",
];
const modes = ["hold", "prepay", "postpay", "free", "", "Hold"];

/** Gives a request ambiguous terms. */
function changeTerms(event: Event, random: Random): void {
  for (let n = random.pick([1, 1, 2]); n > 0; n--) {
    const bid = event.tags.find((tag) => tag[0] === "bid");
    switch (random.below(6)) {
      case 0:
      case 1:
        if (bid) bid.splice(1, 1, random.pick(amounts));
        break;
      case 2:
        event.tags.push(["bid", ...random.pick([[], [random.pick(amounts)], [random.pick(amounts), "x"]])]);
        break;
      case 3:
        event.tags.push(["param", random.pick(["payment_mode", "delivery", "agreement", "refund"]), ...random.pick([[], [random.pick(modes)], [random.pick(modes), "x"]])]);
        break;
      case 4:
        event.tags.push(random.pick([["p"], ["p", ""], ["p", "x"], ["p", buyer], ["p", provider], ["p", provider.toUpperCase()], ["i"], [], [""]]));
        break;
      default:
        event.tags.push(random.pick([["domain"], ["domain", "lightwork/request/v1"], ["domain", "lightwork/result/v1"], Array<string>(1001).fill("t")]));
    }
  }
}

class Forger {
  private readonly files: Map<string, Uint8Array>;
  private readonly stage: Stage;
  private readonly receipt: ObjectValue;

  constructor(bundle: Bundle, private readonly random: Random, private readonly job?: Work) {
    this.files = new Map(bundle);
    this.stage = random.pick(stages);
    this.receipt = this.json("RECEIPT.json");
  }

  run(): Map<string, Uint8Array> {
    this.receipt.set("provider_id", npub(provider)).set("buyer_id", npub(buyer)).set("payee_node", payee);
    if (this.job) this.receipt.set("schema_id", this.job.schema);
    this.makePolicy();
    this.makeRequest();
    this.makeQuote();
    this.makeInvoice();
    this.makeQuoteEvent();
    this.makeAcceptance();
    this.makeResult();
    this.makeReplay();
    this.makeSeal();
    this.makeResultEvent();
    this.makePrevious();
    this.makeReceipt();
    return this.files;
  }

  private makePolicy(): void {
    const text = this.changed("policy", this.json("POLICY.json"));
    this.put("POLICY.json", text);
    this.receipt.set("policy_bundle_id", digest(text));
  }

  private makeRequest(): void {
    const event = parseEvent(this.text("REQUEST.event.json"));
    for (const tag of event.tags) {
      if (tag[0] === "p") tag[1] = provider;
      if (tag[0] === "i") tag[1] = this.stage === "input" ? this.changed("input", parseJson(this.job?.input ?? tag[1] ?? "")) : (this.job?.input ?? tag[1] ?? "");
      if (tag[0] === "param" && tag[1] === "schema" && this.job) tag[2] = this.job.asked;
    }
    if (this.stage === "terms") changeTerms(event, this.random);
    this.sign("REQUEST.event.json", event, "buyer", "request");
    if (this.stage === "requestKind") this.sign("REQUEST.event.json", { ...event, kind: this.random.pick([4999, 5000, 5999, 6000, 6050]) }, "buyer", "none");
    this.receipt.set("request_event_id", parseJsonId(this.text("REQUEST.event.json")));
    const input = event.tags.find((tag) => tag[0] === "i")?.[1] ?? "";
    try {
      const request = jobType(String(this.receipt.get("schema_id")))?.parseRequest(input);
      if (request) {
        this.receipt.set("job_hash", digest(canonical(request)));
        this.receipt.set("verification", new Map<string, Value>(Object.entries(verificationOf(request))));
      }
    } catch {
      // Invalid input has no hash, so the old one stays.
    }
  }

  private makeQuote(): void {
    const quote = this.json("QUOTE.json").set("provider", provider).set("buyer", buyer);
    quote.set("request_id", this.field("request_event_id"));
    if (quote.get("payee_node") !== null) quote.set("payee_node", payee);
    for (const name of ["job_hash", "policy_bundle_id", "schema_id"]) quote.set(name, this.field(name));
    const text = this.changed("quote", quote);
    this.put("QUOTE.json", text);
    this.receipt.set("quote_hash", digest(text));
  }

  private makeInvoice(): void {
    const { prefix, words } = decodeBech32(String(this.receipt.get("bolt11")));
    let data = words.slice(0, -104);
    data = replaceField(data, 23, toWords(hexToBytes(String(this.field("quote_hash")).slice(7))));
    const name = this.stage === "invoice" && this.random.below(3) === 0 ? changedPrefix(prefix, this.random) : prefix;
    if (this.stage === "invoice") data = changedWords(data, this.random);
    this.receipt.set("bolt11", signInvoice(name, data, this.stage === "invoice" ? this.random : undefined));
  }

  private makeQuoteEvent(): void {
    if (!this.files.has("QUOTE.event.json")) return;
    const event = parseEvent(this.text("QUOTE.event.json"));
    event.content = this.text("QUOTE.json");
    const amount = ["amount", String(this.field("amount_msats")), String(this.field("bolt11"))];
    event.tags = [["status", "payment-required"], ["e", String(this.field("request_event_id"))], ["p", buyer], amount, domainTag("quote")];
    this.sign("QUOTE.event.json", event, "provider", "quoteEvent");
  }

  private makeAcceptance(): void {
    if (!this.files.has("ACCEPTANCE.event.json")) return;
    const event = parseEvent(this.text("ACCEPTANCE.event.json"));
    const content = parseJson(event.content) as ObjectValue;
    content.set("request_id", this.field("request_event_id")).set("quote_hash", this.field("quote_hash"));
    event.content = this.changed("acceptance", content);
    event.tags = [["e", String(this.field("request_event_id"))], ["p", provider], domainTag("acceptance")];
    this.receipt.set("acceptance_event_id", this.sign("ACCEPTANCE.event.json", event, "buyer", "acceptanceEvent"));
  }

  private makeResult(): void {
    const result = this.job ? new Map(this.job.result) : this.json("RESULT.json");
    const provenance = new Map(result.get("provenance") as ObjectValue);
    result.set("provenance", provenance.set("provider_pubkey", provider));
    const text = this.changed("result", result);
    this.put("RESULT.json", text);
    this.receipt.set("output_hash", digest(text));
    try {
      const type = jobType(String(this.receipt.get("schema_id")));
      const agreement = type?.agreements(type.parseResult(text), this.job && type.parseRequest(this.job.input))[0];
      this.receipt.set("agreement_hash", agreement === undefined ? null : digest(canonical(agreement)));
    } catch {
      // An invalid result has no agreement, so the old one stays.
    }
    if (this.job) for (const name of [...this.files.keys()]) if (name.startsWith("artifacts/") || name === "PR_SUMMARY.md") this.files.delete(name);
  }

  private makeReplay(): void {
    const lines = this.text("REPLAY.jsonl").trimEnd().split("\n").map((line) => parseJson(line) as ObjectValue);
    for (const line of lines) {
      if (line.has("policy_bundle_id")) line.set("policy_bundle_id", this.field("policy_bundle_id"));
      if (line.get("event") === "Payment") line.set("job_hash", this.field("job_hash"));
    }
    lines.findLast((line) => line.get("event") === "ToolResult")?.set("output_hash", this.field("output_hash"));
    let values: Value[] = lines;
    if (this.stage === "replay") values = this.random.below(2) === 0 ? changedLines(lines, this.random) : (mutateValue(lines, this.random) as Value[]);
    const texts = Array.isArray(values) ? values.map((line) => write(line, this.stage === "replay" ? this.random : undefined)) : [write(values)];
    this.put("REPLAY.jsonl", texts.join("\n") + "\n");
    this.receipt.set("replay_hash", digest(texts.join("\n") + "\n"));
    const bare = texts.slice(1).map((line) => ofLine(line, true));
    this.receipt.set("redacted_trajectory_hash", digest(`[${bare.join(",")}]`));
    this.receipt.set("trajectory_hash", digest(`[${texts.slice(1).map((line) => ofLine(line, false)).join(",")}]`));
  }

  private makeSeal(): void {
    if (!this.files.has("SEAL.json")) return;
    const seal = this.json("SEAL.json");
    for (const name of sealable) seal.set(name, this.field(name));
    const size = (name: string) => this.files.get(name)?.length ?? 0;
    seal.set("contents", [
      new Map<string, Value>([["role", "result"], ["digest", this.field("output_hash")], ["size", size("RESULT.json")]]),
      new Map<string, Value>([["role", "replay"], ["digest", this.field("replay_hash")], ["size", size("REPLAY.jsonl")]]),
    ]);
    this.put("SEAL.json", this.changed("seal", seal));
  }

  private makeResultEvent(): void {
    const event = parseEvent(this.text("RESULT.event.json"));
    const seal = this.files.get("SEAL.json");
    event.tags = event.tags.flatMap((tag) => {
      const [name = ""] = tag;
      if (name === "e") return [["e", String(this.field("request_event_id"))]];
      if (name === "p") return [["p", buyer]];
      if (name === "schema") return [["schema", String(this.field("schema_id"))]];
      if (name === "commitment" && seal) return [["commitment", digest(seal)]];
      if (name === "agreement_hash" && this.field(name) === null) return [];
      return [this.receipt.has(name) ? [name, String(this.field(name))] : tag];
    });
    if (event.content !== "") event.content = this.text("RESULT.json");
    this.receipt.set("result_event_id", this.sign("RESULT.event.json", event, "provider", "resultEvent"));
  }

  private makePrevious(): void {
    if (!this.files.has("PREVIOUS_RECEIPT.json")) return;
    const previous = this.json("PREVIOUS_RECEIPT.json").set("provider_id", npub(provider)).set("buyer_id", npub(buyer));
    const text = this.changed("previous", previous);
    this.put("PREVIOUS_RECEIPT.json", text);
    this.receipt.set("previous_receipt_hash", digest(text));
  }

  private makeReceipt(): void {
    const hashes = [...hexToBytes(String(this.field("quote_hash")).slice(7)), ...hexToBytes(String(this.field("payment_hash")))];
    this.receipt.set("receipt_id", `rcpt_${hashHex(Uint8Array.from([...utf8("lightwork/receipt/v1"), ...hashes])).slice(0, 32)}`);
    const text = this.changed("receipt", this.receipt);
    this.put("RECEIPT.json", text);
    const event = parseEvent(this.text("RECEIPT.event.json"));
    event.content = text;
    event.tags = [["e", String(this.field("request_event_id"))], ["e", String(this.field("result_event_id"))], ["p", buyer], domainTag("receipt")];
    this.sign("RECEIPT.event.json", event, "provider", "receiptEvent");
  }

  /**
   * Signs an event; if it is its turn, its tags and numbers are changed before.
   * Returns the id.
   */
  private sign(name: string, event: Event, by: "provider" | "buyer", stage: Stage): string {
    event.pubkey = by === "provider" ? provider : buyer;
    if (this.stage === stage) {
      const tags = mutateValue(event.tags, this.random);
      if (Array.isArray(tags) && tags.every((t) => Array.isArray(t) && t.every((s) => typeof s === "string"))) event.tags = tags as string[][];
      if (this.random.below(3) === 0) event.created_at += this.random.pick([-1e6, -300, 299, 300, 301, 335, 600, 1e6]);
      if (this.random.below(6) === 0) event.content = this.random.pick(["", "x", "{}", `${event.content} `]);
    }
    event.id = eventId(event, this.random.below(4) === 0);
    event.sig = bytesToHex(schnorr.sign(hexToBytes(event.id), secrets[by], new Uint8Array(32)));
    if (this.stage === "signature" && this.random.below(2) === 0) this.falsify(event, by);
    this.put(name, encodeEvent(event));
    return event.id;
  }

  /** Invalidates the signature. */
  private falsify(event: Event, by: "provider" | "buyer"): void {
    const other = by === "provider" ? "buyer" : "provider";
    const at = this.random.below(128);
    const flipped = (hex: string, i: number) => hex.slice(0, i) + ((parseInt(hex.charAt(i), 16) ^ 1) & 15).toString(16) + hex.slice(i + 1);
    const forgeries: (() => void)[] = [
      () => (event.sig = flipped(event.sig, at)),
      () => (event.id = flipped(event.id, at >> 1)),
      () => (event.sig = bytesToHex(schnorr.sign(hexToBytes(event.id), secrets[other], new Uint8Array(32)))),
      () => (event.sig = "0".repeat(128)),
      () => (event.created_at += 1), // after signing
      () => (event.content += " "),
    ];
    this.random.pick(forgeries)();
  }

  private changed(stage: Stage, value: Value): string {
    return this.stage === stage ? write(mutateValue(value, this.random), this.random) : canonical(value);
  }

  private field(name: string): Value {
    return this.receipt.get(name) ?? null;
  }

  private text(name: string): string {
    return fromUtf8(this.files.get(name) ?? new Uint8Array());
  }

  private json(name: string): ObjectValue {
    return parseJson(this.text(name)) as ObjectValue;
  }

  private put(name: string, text: string): void {
    this.files.set(name, utf8(text));
  }
}

const sealable = ["output_hash", "agreement_hash", "plan_hash", "trajectory_hash", "redacted_trajectory_hash", "replay_hash"];

function npub(key: string): string {
  return encodeBech32("npub", toWords(hexToBytes(key)));
}

function parseJsonId(text: string): string {
  return (parseJson(text) as ObjectValue).get("id") as string;
}

/** A line in the form that is hashed; a line that does not decode is used unchanged. */
function ofLine(line: string, bare: boolean): string {
  try {
    const value = parseJson(line);
    if (!(value instanceof Map)) return line;
    return canonical(bare ? new Map([...value].filter(([name]) => name !== "params" && name !== "payload")) : value);
  } catch {
    return line;
  }
}

function changedLines(lines: ObjectValue[], random: Random): ObjectValue[] {
  const i = random.below(lines.length);
  const line = lines[i] ?? new Map<string, Value>();
  const j = random.below(lines.length);
  const name = random.pick(["event", "t", "id", "params", "params_hash", "payload", "payload_hash", "plan_hash", "output_hash", "status", "total_tool_calls"]);
  return random.pick([
    lines.toSpliced(i, 1), lines.toSpliced(j, 0, line), lines.toSpliced(i, 1).toSpliced(j, 0, line),
    lines.toSpliced(i, 1, new Map([...line].filter(([k]) => k !== name))),
    lines.toSpliced(i, 1, new Map(line).set(name, lines[j]?.get(name) ?? "x")),
    lines.toSpliced(j, 0, new Map<string, Value>([["event", "RuntimeEvent"], ["t", "2026-01-01T00:00:05.000Z"], ["payload", line], ["payload_hash", digest(canonical(line))]])),
    lines.toSpliced(j, 0, new Map<string, Value>([["event", "Whatever"]])),
  ]);
}
