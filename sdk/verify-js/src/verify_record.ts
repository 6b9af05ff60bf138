/** Claims about the record: who signed the receipt, what was ordered, what was agreed. */
import { Lacking, require, type Steps } from "./claim.js";
import { checkPolicy, parseAcceptance, parsePruning, parseReceipt, type Verification } from "./documents.js";
import { aliveStep, eventSteps, isAsked, isPinned, namedQuote, textOf, type Evidence } from "./evidence.js";
import { digest } from "./hex.js";
import { jobType, type JobType } from "./jobtypes.js";
import { canonical, type ObjectValue } from "./json.js";
import { count, object, text } from "./rules.js";
import { inlined } from "./inputs.js";
import { readTerms } from "./terms.js";
import { inputTypes, isUntyped, readUntyped } from "./untyped.js";
import { onlyTag, tagsNamed, type Event } from "./nostr.js";

/** The allowed difference of the parties' clocks, in seconds. */
export const clockSkew = 300;

export function proveSignature(e: Evidence, s: Steps): string {
  const { receipt, pins } = e;
  const event = eventSteps(s, ["1.1", "1.2"], e, "RECEIPT.event.json", "receipt");
  let signed = receipt.timestamp;
  if (event) {
    signed = Math.max(signed, event.created_at);
    s.demand("1.3", "its content is RECEIPT.json, byte for byte", event.content === e.receiptText, "it is another");
    s.demand("1.4", "its author is provider_id", event.pubkey === receipt.provider, `it is ${event.pubkey}`);
    s.step("1.5", "its tags name the request, the result if it is for one, and the buyer", () => {
      const named = tagsNamed(event, "e").map((tag) => tag[1]);
      require(named.includes(receipt.request_event_id), "no e tag with the request");
      require(receipt.purpose === "engagement" || named.includes(receipt.result_event_id), "no e tag with the result");
      require(onlyTag(event, "p") === receipt.buyer, "not one p tag with the buyer");
    });
  }
  if (pins.provider) s.demand("1.6", "the provider is the pinned one", isPinned(e, receipt.provider, pins.provider), "it is another");
  aliveStep(s, "1.7", e, "provider", receipt.provider, signed);
  if (e.bundle.has("PRUNED.event.json")) provePruning(e, s);
  return `signed by ${receipt.provider_id}`;
}

/** Steps 1.8 to 1.10: what the provider says that it has pruned. */
function provePruning(e: Evidence, s: Steps): void {
  const { receipt } = e;
  const event = eventSteps(s, ["1.8", "1.9"], e, "PRUNED.event.json", "pruned");
  if (!event) return;
  const said = s.step("1.10", "it is the provider's word on this receipt", () => {
    require(event.pubkey === receipt.provider, `its author is ${event.pubkey}`);
    const found = parsePruning(event.content);
    require(found.receipt_id === receipt.receipt_id, "it is of another receipt");
    require(found.request_id === receipt.request_event_id, "it is of another request");
    require(onlyTag(event, "e") === receipt.request_event_id, "not one e tag with the request");
    return found;
  });
  if (!said) return;
  const promised = namedQuote(e)?.retention;
  e.gone = new Map(
    said.parts.map(({ part, at }) => {
      const keep = promised?.get(part);
      const early = keep === null || (keep !== undefined && Date.parse(at) / 1000 + clockSkew < receipt.timestamp + keep / 1000);
      return [part, `pruned by its provider at ${at}${early ? ", sooner than its quote promised" : ""}`];
    }),
  );
}

export function proveJob(e: Evidence, s: Steps): string {
  const { receipt, pins } = e;
  const event = eventSteps(s, ["2.1", "2.2"], e, "REQUEST.event.json", "request");
  if (event) {
    proveOrder(e, s, event);
    aliveStep(s, "2.13", e, "buyer", receipt.buyer, event.created_at);
  }
  if (pins.buyer) s.demand("2.12", "the buyer is the pinned one", isPinned(e, receipt.buyer, pins.buyer), "it is another");
  return `${receipt.schema_id}, as the buyer signed it`;
}

function proveOrder(e: Evidence, s: Steps, event: Event): void {
  const { receipt } = e;
  s.demand("2.3", "its id is request_event_id", event.id === receipt.request_event_id, "it is another");
  s.demand("2.4", "its author is buyer_id", event.pubkey === receipt.buyer, `it is ${event.pubkey}`);
  s.demand("2.5", "its kind is from 5000 to 5999", event.kind >= 5000 && event.kind <= 5999, `it is ${event.kind}`);
  e.requestKind = event.kind;
  const request = proveTyped(e, s, event);
  const named = tagsNamed(event, "p").map((tag) => tag[1]);
  s.demand("2.9", "it names this provider, or nobody", named.length === 0 || named.includes(receipt.provider), "it names another");
  s.step("2.10", "price and mode are those that it allows", () => {
    const { bid, mode } = readTerms(event);
    require(bid === undefined || receipt.amount_msats <= bid, "the amount is above the bid");
    if (receipt.purpose === "engagement") return; // prepaid, whatever the mode of the result is
    require(mode === undefined || mode === receipt.mode, `it asks for ${mode ?? ""}`);
  });
  s.step("2.11", "it is dated neither after the quote's expiry nor after the settlement", () => {
    require(event.created_at <= receipt.timestamp + clockSkew, "it is dated after the settlement");
    const quote = namedQuote(e);
    if (quote) require(event.created_at <= quote.expires_at + clockSkew, "it is dated after the quote's expiry");
  });
  if (request && s.list.every((step) => step.state === "proved")) e.request = request;
}

function proveTyped(e: Evidence, s: Steps, event: Event): ObjectValue | undefined {
  const { receipt } = e;
  const typed = s.step("2.6", "it is typed and in the clear", () => {
    const read = inlined(e, event);
    e.untyped = isUntyped(receipt, read);
    return e.untyped ? readUntyped(read) : readTyped(read);
  });
  if (!typed) return undefined;
  const known = s.step("2.7", "its input is valid under its schema", () => {
    const type = knownType(typed.schema);
    return { id: type.id, request: type.parseRequest(typed.input) };
  });
  if (!known) return undefined;
  s.step("2.8", "with its defaults, its schema_id, job_hash and verification are the receipt's", () => {
    require(known.id === receipt.schema_id, `its schema is ${known.id}`);
    const asked = verificationOf(known.request);
    for (const name of ["adjudication", "redundancy", "tier"] as const) {
      require(asked[name] === receipt.verification[name], `its verification.${name} is ${asked[name]}`);
    }
    require(digest(canonical(known.request)) === receipt.job_hash, "its hash is another");
  });
  return known.request;
}

/** How the request wants its result to be verified. */
export function verificationOf(request: ObjectValue): Verification {
  const stated = object(request, "verification");
  const adjudication = text(stated, "adjudication");
  const redundancy = count(stated, "redundancy");
  switch (adjudication) {
    case "majority_vote":
    case "merge":
      return { adjudication, redundancy, tier: "redundancy_consensus" };
    case "judge_model":
      return { adjudication, redundancy, tier: "judge" };
  }
  return { adjudication, redundancy, tier: text(stated, "mode") === "objective" ? "objective" : "reputation_only" };
}

export function knownType(schema: string): JobType {
  const type = jobType(schema);
  if (!type) throw new Lacking(`the job type ${JSON.stringify(schema)} is not known here`);
  return type;
}

function readTyped(event: Event): { schema: string; input: string } {
  if (tagsNamed(event, "encrypted").length > 0) throw new Lacking("it is encrypted");
  const schemas = [...new Set(params(event, ["schema", "schema_id", "job_type"]))].filter((id) => id !== "");
  const inputs = tagsNamed(event, "i");
  require(schemas.length === 1, `it names ${schemas.length} schemas`);
  const [, input, type = ""] = inputs[0] ?? [];
  require(inputs.length === 1 && input !== undefined && inputTypes.includes(type), "not exactly one input, of type text");
  return { schema: schemas[0] ?? "", input: input ?? "" };
}

function params(event: Event, names: string[]): string[] {
  return tagsNamed(event, "param").flatMap((tag) => (names.includes(tag[1] ?? "") ? tag.slice(2, 3) : []));
}

export function proveAccepted(e: Evidence, s: Steps): string {
  const { receipt, pins } = e;
  s.step("8.1", "the receipt names an acceptance", () => {
    if (receipt.acceptance_event_id !== null) return;
    require(receipt.approval_rule_id === null, "it names none, but a rule");
    require(!e.bundle.has("ACCEPTANCE.event.json"), "it names none, but the bundle has one");
    throw new Lacking("the buyer sent none");
  });
  if (receipt.acceptance_event_id !== null) proveAcceptance(e, s);
  if (pins.buyer) s.demand("8.8", "the buyer is the pinned one", isPinned(e, receipt.buyer, pins.buyer), "it is another");
  const rule = receipt.approval_rule_id;
  return rule === null ? "signed by the buyer, without a rule" : `signed by the buyer under the rule ${JSON.stringify(rule)}`;
}

function proveAcceptance(e: Evidence, s: Steps): void {
  const { receipt } = e;
  const event = eventSteps(s, ["8.2", "8.3"], e, "ACCEPTANCE.event.json", "acceptance");
  if (!event) return;
  s.demand("8.4", "its id is acceptance_event_id", event.id === receipt.acceptance_event_id, "it is another");
  s.demand("8.5", "its author is buyer_id", event.pubkey === receipt.buyer, `it is ${event.pubkey}`);
  s.step("8.6", "it accepts this request, quote, payment and price, under this rule, for this provider", () => {
    const a = parseAcceptance(event.content);
    require(a.request_id === receipt.request_event_id, "it is for another request");
    require(a.quote_hash === receipt.quote_hash, "it is for another quote");
    require(a.payment_hash === receipt.payment_hash, "it is for another payment hash");
    require(a.price_msats === receipt.amount_msats, "it is for another price");
    require(a.approval_rule_id === receipt.approval_rule_id, "it is under another rule");
    require(onlyTag(event, "e") === receipt.request_event_id, "not one e tag with the request");
    require(onlyTag(event, "p") === receipt.provider, "not one p tag with the provider");
  });
  s.demand("8.7", "it is not younger than the receipt", event.created_at <= receipt.timestamp, "it is");
}

export function provePolicy(e: Evidence, s: Steps): string {
  const text = s.step("10.1", "POLICY.json is in the bundle and a policy manifest", () => {
    const policy = textOf(e, "POLICY.json");
    checkPolicy(policy);
    return policy;
  });
  if (text !== undefined) s.demand("10.2", "its hash is policy_bundle_id", digest(text) === e.receipt.policy_bundle_id, "it is another");
  return "the manifest is the one that quote, session and receipt name";
}

export function proveChain(e: Evidence, s: Steps): string {
  const { receipt } = e;
  if (receipt.sequence === 1) {
    const alone = receipt.previous_receipt_hash === null && !e.bundle.has("PREVIOUS_RECEIPT.json");
    s.demand("11.1", "the first receipt has none before it", alone, "it has");
    return "the first receipt; that there is no other chain is not shown";
  }
  const previous = s.step("11.2", "PREVIOUS_RECEIPT.json is in the bundle, and a valid receipt", () => {
    const text = textOf(e, "PREVIOUS_RECEIPT.json");
    return { ...parseReceipt(text), text };
  });
  if (previous) {
    s.demand("11.3", "its hash is previous_receipt_hash", digest(previous.text) === receipt.previous_receipt_hash, "it is another");
    const led = isAsked(e, receipt.provider) && e.known.keys.leads(previous.provider, receipt.provider);
    const continues = (led || previous.provider === receipt.provider) && previous.sequence === receipt.sequence - 1;
    s.demand("11.4", "it is the same provider's, with the sequence one lower", continues, "it is not");
  }
  return `receipt ${receipt.sequence} follows receipt ${receipt.sequence - 1}; that no other follows it too is not shown`;
}

