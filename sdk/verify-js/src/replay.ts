import { digest, isDigest, utf8 } from "./hex.js";
import { canonical, parseJson, type ObjectValue, type Value } from "./json.js";

/** REPLAY.jsonl, version 1, with all its own rules checked. */
export interface Replay {
  redacted: boolean;
  trajectoryHash: string;
  redactedTrajectoryHash: string;
  replayHash: string;
  sessionId: string;
  policyBundleId: string;
  planHash: string | undefined;
  /** output_hash of the last ToolResult */
  output: string | undefined;
  payments: ObjectValue[];
  /** whether a ToolCall comes before the first Payment */
  paidLate: boolean;
  toolCalls: number;
  status: string;
}

/** The record violates a rule. */
export class ReplayError extends Error {}

const redactedProducer = "redacted@1";
const maxLines = 100_000;
const maxLineBytes = 8 << 20;
const maxPayments = 64;
const maxName = 1024;
const maxCommand = 1 << 20;

/** Checks the rules of REPLAY.jsonl; throws a ReplayError or a JsonError. */
export function parseReplay(text: string): Replay {
  const [header = new Map<string, Value>(), ...events] = splitLines(text);
  for (const line of [header, ...events]) checkLine(line);
  checkFrame(header, events);
  const calls = checkCalls(events);
  checkSteps(events);
  checkRuntime(events);
  const named = (name: string) => events.filter((e) => e.get("event") === name);
  const payments = named("Payment");
  if (payments.length > maxPayments) throw new ReplayError(`more than ${maxPayments} payments`);
  const [start] = named("SessionStart");
  const [end] = named("SessionEnd");
  return {
    redacted: isRedacted(header, events, text),
    trajectoryHash: digest(canonical(events)),
    redactedTrajectoryHash: digest(canonical(events.map(withoutData))),
    replayHash: digest(text),
    sessionId: start?.get("session_id") as string,
    policyBundleId: start?.get("policy_bundle_id") as string,
    planHash: named("PlanStart")[0]?.get("plan_hash") as string | undefined,
    output: named("ToolResult").at(-1)?.get("output_hash") as string | undefined,
    payments,
    paidLate: events.findIndex((e) => e.get("event") === "ToolCall" || e.get("event") === "Payment") !== events.indexOf(payments[0] ?? new Map()),
    toolCalls: calls,
    status: end?.get("status") as string,
  };
}

function splitLines(text: string): ObjectValue[] {
  if (!text.endsWith("\n")) throw new ReplayError("the last line is not ended");
  const lines = text.slice(0, -1).split("\n");
  if (lines.length > maxLines) throw new ReplayError(`more than ${maxLines} lines`);
  return lines.map((line, i) => {
    if (utf8(line).length >= maxLineBytes) throw new ReplayError(`line ${i + 1} has more than ${maxLineBytes} bytes`);
    const value = parseJson(line);
    if (!(value instanceof Map)) throw new ReplayError(`line ${i + 1} is no object`);
    if (canonical(value) !== line) throw new ReplayError(`line ${i + 1} is not in canonical form`);
    return value;
  });
}

type Rule = (value: Value) => boolean;

const name: Rule = (v) => typeof v === "string" && v !== "" && utf8(v).length <= maxName;
const short: Rule = (v) => typeof v === "string" && utf8(v).length <= maxName;
const integer: Rule = (v) => Number.isInteger(v);
const count: Rule = (v) => typeof v === "number" && Number.isInteger(v) && v >= 0;
const hash: Rule = (v) => typeof v === "string" && isDigest(v);
const ratio = (low: number): Rule => (v) => typeof v === "number" && v >= low && v <= 1;
const oneOf = (...words: string[]): Rule => (v) => words.includes(v as string);
const optional = (rule: Rule): Rule => (v) => v === null || rule(v);
const listOf = (rule: Rule): Rule => (v) => Array.isArray(v) && v.every(rule);
const command: Rule = (v) => typeof v === "string" && utf8(v).length <= maxCommand;

/** RFC 3339 with any offset, from 1970 to 9999. Ours have UTC and three decimals. */
const time: Rule = (v) => {
  const form = /^([0-9]{4}-[0-9]{2}-[0-9]{2})T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])$/;
  const day = typeof v === "string" ? form.exec(v)?.[1] : undefined;
  if (day === undefined || !isDay(day)) return false;
  const year = new Date(v as string).getUTCFullYear();
  return year >= 1970 && year <= 9999;
};

function isDay(day: string): boolean {
  const date = new Date(`${day}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(day);
}

/** The fields of each event. Other fields and other events are allowed. */
const events: ReadonlyMap<string, Record<string, Rule>> = new Map<string, Record<string, Rule>>([
  ["ReplayHeader", { replay_version: (v) => v === 1, producer: name, created_at: time }],
  ["SessionStart", { t: time, session_id: name, issue_number: optional(integer), policy_bundle_id: name }],
  ["PlanStart", { t: time, plan_hash: hash, step_count: count }],
  ["ToolCall", { t: time, id: name, tool: name, step_id: short, params_hash: hash }],
  ["ToolResult", { t: time, id: name, output_hash: hash, exit_code: optional(integer), step_utility: ratio(-1), latency_ms: count }],
  ["StepComplete", { t: time, step_id: name, iterations: count, status: oneOf("Success", "Failed", "Skipped", "MaxIterationsReached") }],
  ["Verification", { t: time, commands: listOf(command), exit_codes: listOf(integer), verification_delta: integer }],
  ["Payment", {
    t: time, rail: oneOf("lightning", "cashu", "onchain", "taproot_assets"), asset_id: name, amount_msats: count, status: name, job_hash: optional(hash),
  }],
  ["RuntimeEvent", { t: time, session_id: name, seq: count, runtime_event_type: name, idempotency_key: optional(short), payload_hash: hash }],
  ["SessionEnd", {
    t: time, status: oneOf("Success", "Failed", "Cancelled", "Timeout", "success", "failure", "cancelled"), confidence: ratio(0), total_tool_calls: count,
    total_latency_ms: count,
  }],
]);

function checkLine(line: ObjectValue): void {
  const event = line.get("event") ?? null;
  if (!name(event)) throw new ReplayError("a line without an event");
  for (const [field, rule] of Object.entries(events.get(event as string) ?? {})) {
    if (!rule(line.get(field) ?? null)) throw new ReplayError(`${String(event)}: ${field} is missing or malformed`);
  }
  if (event === "ToolCall") checkHashed(line, "params");
  if (event === "RuntimeEvent") checkHashed(line, "payload");
  if (event === "Verification" && (line.get("commands") as Value[]).length !== (line.get("exit_codes") as Value[]).length) {
    throw new ReplayError("Verification: not one exit code for each command");
  }
}

/**
 * params_hash and payload_hash must match the values; a redacted line has only
 * the hash.
 */
function checkHashed(line: ObjectValue, field: string): void {
  const value = line.get(field);
  if (value !== undefined && digest(canonical(value)) !== line.get(`${field}_hash`)) throw new ReplayError(`${field}_hash is false`);
}

/** Header, start, any events, end, each once; at most one plan, before the first call. */
function checkFrame(header: ObjectValue, lines: ObjectValue[]): void {
  const names = lines.map((line) => line.get("event"));
  const at = (event: string) => names.flatMap((n, i) => (n === event ? [i] : [])).join();
  if (header.get("event") !== "ReplayHeader" || at("ReplayHeader") !== "") throw new ReplayError("the first line, and no other, is the header");
  if (at("SessionStart") !== "0") throw new ReplayError("the second line, and no other, is SessionStart");
  if (at("SessionEnd") !== String(names.length - 1)) throw new ReplayError("the last line, and no other, is SessionEnd");
  const firstCall = names.indexOf("ToolCall");
  const plan = names.indexOf("PlanStart");
  if (plan !== names.lastIndexOf("PlanStart") || (firstCall >= 0 && plan > firstCall)) throw new ReplayError("a second plan, or one after a call");
}

/** Every call has a unique id and one later result; returns the number of calls. */
function checkCalls(lines: ObjectValue[]): number {
  const waiting = new Set<string>();
  const seen = new Set<string>();
  for (const line of lines) {
    const id = line.get("id") as string;
    if (line.get("event") === "ToolCall") {
      if (seen.has(id)) throw new ReplayError("a call comes twice");
      seen.add(id);
      waiting.add(id);
    } else if (line.get("event") === "ToolResult" && !waiting.delete(id)) {
      throw new ReplayError("a result has no call before it, or is the second");
    }
  }
  if (waiting.size > 0) throw new ReplayError("a call has no result");
  if (lines.at(-1)?.get("total_tool_calls") !== seen.size) throw new ReplayError("total_tool_calls is not the number of calls");
  return seen.size;
}

/** A step completes once, and no more complete than were planned before. */
function checkSteps(lines: ObjectValue[]): void {
  const done = new Set<Value>();
  let planned = Infinity;
  for (const line of lines) {
    if (line.get("event") === "PlanStart") planned = line.get("step_count") as number;
    if (line.get("event") !== "StepComplete") continue;
    const step = line.get("step_id") ?? null;
    if (done.has(step)) throw new ReplayError("a step completes twice");
    done.add(step);
    if (done.size > planned) throw new ReplayError("more steps complete than were planned");
  }
}

/** RuntimeEvents belong to this session, and their numbers increase. */
function checkRuntime(lines: ObjectValue[]): void {
  let last = -1;
  for (const line of lines) {
    if (line.get("event") !== "RuntimeEvent") continue;
    const seq = line.get("seq") as number;
    if (line.get("session_id") !== lines[0]?.get("session_id") || seq <= last) throw new ReplayError("a RuntimeEvent of another session, or out of order");
    last = seq;
  }
}

/**
 * Either all params and payloads are present, or none, and then the file has
 * the only form that its hash fixes.
 */
function isRedacted(header: ObjectValue, lines: ObjectValue[], text: string): boolean {
  const stripped = lines.some((line) => {
    const event = line.get("event");
    return (event === "ToolCall" && !line.has("params")) || (event === "RuntimeEvent" && !line.has("payload"));
  });
  if (header.get("producer") !== redactedProducer) {
    if (stripped) throw new ReplayError("redacted, and its header does not say so");
    return false;
  }
  const t = new Date(lines[0]?.get("t") as string).toISOString();
  const ours: ObjectValue = new Map<string, Value>([["created_at", t], ["event", "ReplayHeader"], ["producer", redactedProducer], ["replay_version", 1]]);
  const form = [ours, ...lines.map(withoutData)].map((line) => `${canonical(line)}\n`).join("");
  if (form !== text) throw new ReplayError("a redacted record that is not in its form");
  return true;
}

function withoutData(line: ObjectValue): ObjectValue {
  return new Map([...line].filter(([field]) => field !== "params" && field !== "payload"));
}
