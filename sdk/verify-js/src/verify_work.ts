/** Claims about the work: the result and the record of how it was made. */
import { Lacking, require, type Steps } from "./claim.js";
import { parseSeal, type Receipt, type Seal } from "./documents.js";
import { eventSteps, textOf, type Evidence } from "./evidence.js";
import { digest, isDigest } from "./hex.js";
import type { JobType } from "./jobtypes.js";
import { canonical, parseCanonical, type ObjectValue, type Value } from "./json.js";
import { onlyTag, tagsNamed, type Event } from "./nostr.js";
import { parseReplay, type Replay } from "./replay.js";
import { wordsOf } from "./untyped.js";
import { clockSkew, knownType } from "./verify_record.js";

/**
 * Steps 3.0 and 4.0: whether the receipt is for work at all. If it is not,
 * files that no claim covers are a contradiction.
 */
function isForWork(e: Evidence, s: Steps, number: string, check: string, isWork: (name: string) => boolean): boolean {
  if (e.receipt.purpose === "result") return true;
  s.step(number, check, () => {
    const file = [...e.bundle.keys()].find(isWork);
    require(file === undefined, `${file ?? ""} is in the bundle of an engagement fee`);
    throw new Lacking("an engagement fee pays for the attempt, and is final before there is any");
  });
  return false;
}

const resultFiles = ["RESULT.event.json", "RESULT.json", "SEAL.json", "PR_SUMMARY.md"];

export function proveResult(e: Evidence, s: Steps): string {
  const { receipt } = e;
  const isResult = (name: string) => resultFiles.includes(name) || name.startsWith("artifacts/");
  if (!isForWork(e, s, "3.0", "the receipt is for a result", isResult)) return "";
  const event = eventSteps(s, ["3.1", "3.2"], e, "RESULT.event.json", "result");
  if (event) proveEvent(e, s, event);
  const text = s.step("3.6", "RESULT.json is in the bundle, and is what the event carries", () => {
    const found = textOf(e, "RESULT.json", "results");
    require(!event || event.content === "" || isEncrypted(event) || event.content === found || event.content === wordsOf(e, found), "the event carries another");
    return found;
  });
  const result = text === undefined ? undefined : proveDocument(e, s, text);
  if (event) {
    const inTime = event.created_at <= receipt.timestamp + clockSkew;
    s.demand("3.13", "its event is not dated after the receipt's timestamp", inTime, "it is");
  }
  const status = result?.get("status");
  return `valid under ${receipt.schema_id}, delivered and hashed as the receipt says` + (typeof status === "string" ? `; its status is ${status}` : "");
}

function proveEvent(e: Evidence, s: Steps, event: Event): void {
  const { receipt } = e;
  s.demand("3.3", "its id is result_event_id", event.id === receipt.result_event_id, "it is another");
  s.step("3.4", "author, kind and tags are those of this job and this receipt", () => checkTags(e, event));
  s.step("3.5", "it was delivered as the receipt says", () => checkDelivery(e, event));
}

const alwaysNamed = ["job_hash", "quote_hash", "policy_bundle_id", "session_id"] as const;
const sealable = ["output_hash", "plan_hash", "trajectory_hash", "redacted_trajectory_hash", "replay_hash"] as const;

function checkTags(e: Evidence, event: Event): void {
  const { receipt } = e;
  require(event.pubkey === receipt.provider, `its author is ${event.pubkey}`);
  const { kind } = event;
  require(e.requestKind === undefined ? kind >= 6000 && kind <= 6999 : kind === e.requestKind + 1000, `its kind is ${kind}`);
  require(onlyTag(event, "e") === receipt.request_event_id, "not one e tag with the request");
  require(tagsNamed(event, "p").some((tag) => tag[1] === receipt.buyer), "no p tag with the buyer");
  requireTag(event, "schema", receipt.schema_id);
  for (const name of alwaysNamed) requireTag(event, name, receipt[name]);
  if (receipt.agreement_hash === null)
    require(tagsNamed(event, "agreement_hash").length === 0, "it names an agreement_hash, and the receipt does not");
  if (receipt.delivery === "sealed") {
    const commitment = onlyTag(event, "commitment") ?? "";
    require(isDigest(commitment), "not one commitment");
    const seal = e.bundle.get("SEAL.json");
    if (!seal) throw new Lacking("SEAL.json, which it commits to, is not there");
    return require(commitment === digest(seal), "it commits to another SEAL.json");
  }
  for (const name of sealable) requireTag(event, name, receipt[name]);
  if (receipt.agreement_hash !== null) requireTag(event, "agreement_hash", receipt.agreement_hash);
}

function requireTag(event: Event, name: string, value: string): void {
  require(onlyTag(event, name) === value, `not one ${name} tag with the receipt's value`);
}

function isEncrypted(event: Event): boolean {
  return tagsNamed(event, "encrypted").length > 0;
}

function checkDelivery(e: Evidence, event: Event): void {
  if (isEncrypted(event)) throw new Lacking("it is encrypted");
  const { receipt } = e;
  if (receipt.delivery === "plain") return require(!e.bundle.has("SEAL.json"), "there is a SEAL.json");
  const seal = parseSeal(textOf(e, "SEAL.json"));
  for (const name of [...sealable, "agreement_hash"] as const) require(seal[name] === receipt[name], `SEAL.json has another ${name}`);
  checkContents(e, seal);
}

/**
 * The boxes contained the result and the record that the receipt names, and
 * files with the sizes of those here.
 */
function checkContents(e: Evidence, seal: Seal): void {
  const sizes = new Map([...e.bundle.values()].map((data) => [digest(data), data.length]));
  const named: Record<string, string> = { result: e.receipt.output_hash, replay: e.receipt.replay_hash };
  for (const { role, digest: found, size } of seal.contents) {
    require(found === (named[role] ?? found), `SEAL.json lists another ${role}`);
    require((sizes.get(found) ?? size) === size, `SEAL.json lists a ${role} with another size`);
  }
}

function proveDocument(e: Evidence, s: Steps, text: string): ObjectValue | undefined {
  const { receipt } = e;
  let type: JobType | undefined;
  const result = s.step("3.7", "it is valid under its schema, and its own canonical form", () => {
    parseCanonical(text);
    type = knownType(receipt.schema_id);
    return type.parseResult(text);
  });
  s.demand("3.8", "its hash is output_hash", digest(text) === receipt.output_hash, "it is another");
  if (!type || !result) return undefined;
  const { agreements, checkAnswer } = type;
  s.step("3.9", "its agreement hash is agreement_hash, and its provenance the provider", () => checkOrigin(receipt, result, agreements(result, e.request)));
  s.step("3.10", "it answers the request, and is what it expects", () => {
    if (!e.request) throw new Lacking("there is no proved request to hold it against");
    checkAnswer(e.request, result);
  });
  s.step("3.11", "the artifacts are those that the result lists", () => checkArtifacts(e, artifactsOf(result)));
  const summary = e.bundle.get("PR_SUMMARY.md");
  if (summary) {
    const listed = artifactsOf(result).some((a) => baseOf(a) === "PR_SUMMARY.md" && a.get("sha256") === digest(summary));
    s.demand("3.12", "PR_SUMMARY.md is an artifact of that name", listed, "it is none");
  }
  return result;
}

function checkOrigin(receipt: Receipt, result: ObjectValue, agreements: Value[]): void {
  if (receipt.agreement_hash !== null) {
    require(agreements.length > 0, "this job type has no agreement");
    require(agreements.some((value) => digest(canonical(value)) === receipt.agreement_hash), "its agreement hash is another");
  }
  const provenance = result.get("provenance");
  require(provenance instanceof Map && provenance.get("provider_pubkey") === receipt.provider, "its provenance names another provider");
}

function artifactsOf(result: ObjectValue): ObjectValue[] {
  return (result.get("artifacts") ?? []) as ObjectValue[];
}

function baseOf(artifact: ObjectValue): string | undefined {
  return String(artifact.get("path")).split("/").at(-1);
}

function checkArtifacts(e: Evidence, listed: ObjectValue[]): void {
  const sizes = new Map<string, number>();
  for (const [name, data] of e.bundle) {
    if (!name.startsWith("artifacts/")) continue;
    const found = digest(data);
    require(`artifacts/${found.slice(7)}` === name, `${name} has another hash`);
    require(listed.some((a) => a.get("sha256") === found), `${name} is not listed`);
    sizes.set(found, data.length);
  }
  for (const artifact of listed) {
    const size = sizes.get(artifact.get("sha256") as string);
    require(size === undefined || size === artifact.get("size_bytes"), `${String(artifact.get("path"))} has another size`);
  }
  const absent = listed.find((a) => !sizes.has(a.get("sha256") as string));
  if (absent) throw new Lacking(e.gone?.get("artifacts") ?? `${String(absent.get("path"))} is not in the bundle`);
}

export function proveTrajectory(e: Evidence, s: Steps): string {
  const { receipt } = e;
  if (!isForWork(e, s, "4.0", "the receipt is for work that was recorded", (name) => name === "REPLAY.jsonl")) return "";
  const replay = s.step("4.1", "REPLAY.jsonl is in the bundle, and well-formed", () => parseReplay(textOf(e, "REPLAY.jsonl", "trajectories")));
  if (!replay) return "";
  s.step("4.2", "its hashes are the receipt's", () => {
    require(replay.redactedTrajectoryHash === receipt.redacted_trajectory_hash, "redacted_trajectory_hash is another");
    if (replay.redacted) return;
    require(replay.trajectoryHash === receipt.trajectory_hash, "trajectory_hash is another");
    require(replay.replayHash === receipt.replay_hash, "replay_hash is another");
  });
  s.step("4.3", "session, policy, plan and output are the receipt's", () => {
    require(replay.sessionId === receipt.session_id, "it is another session");
    require(replay.policyBundleId === receipt.policy_bundle_id, "it ran under another policy");
    require(replay.planHash === receipt.plan_hash, "it had another plan");
    require(replay.output === receipt.output_hash, "its last output is another");
  });
  s.step("4.4", "what it says of the payment is the receipt's", () => checkPayment(receipt, replay));
  const whole = replay.redacted ? "the complete session, redacted" : "the complete session";
  return `${whole}, ${replay.toolCalls} tool calls, ended ${replay.status}`;
}

function checkPayment(receipt: Receipt, replay: Replay): void {
  const [payment, ...more] = replay.payments;
  if (receipt.mode === "postpay") return require(!payment, "a payment in a session that was paid afterwards");
  if (!payment || more.length > 0) throw new Error("not one payment");
  require(!replay.paidLate, "the work began before the payment");
  require(payment.get("status") === (receipt.mode === "hold" ? "held" : "received"), "its status is not that of the mode");
  require(payment.get("payment_proof") === null, "it holds a proof");
  for (const name of ["rail", "asset_id", "amount_msats", "job_hash"] as const) {
    require(payment.get(name) === receipt[name], `its ${name} is another`);
  }
}
