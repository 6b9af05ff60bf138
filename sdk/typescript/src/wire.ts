/** Messages: strict decoding of the node's, and encoding of ours. */

import { randomUUID } from "node:crypto";

import { Code, fitsMessage, validCode, type WireError } from "./errors.js";
import { DecodeError, Fields, maxIDBytes, type Echo } from "./fields.js";
import { isObject, parseStrict, type JSONObject } from "./json.js";

export const protocolVersion = 1;

const maxTypeBytes = 100;
const agentIDForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/;
const toolNameForm = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/;
const versionForm = /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$/;
const timeForm =
  /^\d{4}-(\d\d)-(\d\d)T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/;

export const validAgentID = (id: unknown): id is string => typeof id === "string" && agentIDForm.test(id);
export const validToolName = (name: unknown): name is string => typeof name === "string" && toolNameForm.test(name);
export const validVersion = (v: unknown): v is string =>
  typeof v === "string" && v.length <= 100 && versionForm.test(v);

/** For whom a call is made: metadata, never authority (OS-3.2.3). */
export interface Actor {
  type: "human" | "agent" | "system";
  id: string;
  display?: string;
}

/** One message from the node. Its payload is checked as far as its type is known. */
export interface Message {
  id: string;
  type: string;
  echo: Echo;
  inReplyTo: string | undefined;
  actor: Actor | undefined;
  error: WireError | undefined;
  payload: JSONObject;
}

/** Decodes one message. Throws only DecodeError. */
export function decode(text: string): Message {
  let doc: unknown;
  try {
    doc = parseStrict(text);
  } catch (err) {
    throw new DecodeError(Code.invalidMessage, "", (err as SyntaxError).message);
  }
  if (!isObject(doc)) {
    throw new DecodeError(Code.invalidMessage, "", "not a JSON object");
  }
  try {
    return check(doc);
  } catch (err) {
    const refused = err as DecodeError;
    refused.id = readable(doc, "id");
    refused.echo = echoOf(doc, readable);
    throw refused;
  }
}

function check(doc: JSONObject): Message {
  const e = new Fields(doc, "");
  for (const name of ["v", "type", "id", "ts", "payload"]) {
    e.present(name);
  }
  if (e.integer("v") !== protocolVersion) {
    throw new DecodeError(Code.unsupportedVersion, "v", "must be 1");
  }
  const type = e.text("type", maxTypeBytes) ?? "";
  if (!/^core\../.test(type)) {
    throw new DecodeError(Code.wrongDirection, "type", "not a type that the node may send");
  }
  const id = e.id("id");
  const echo = echoOf(doc, (_, name) => e.optionalID(name));
  const inReplyTo = e.optionalID("in_reply_to");
  const actor = e.object("actor");
  if (actor) {
    checkActor(actor);
  }
  const error = e.object("error");
  if (error) {
    checkError(error);
  }
  const payload = e.object("payload") ?? e.fail("payload", "must be an object");
  const known = Object.hasOwn(payloads, type) ? payloads[type] : undefined;
  if (!known) {
    throw new DecodeError(Code.unknownType, "type", "unknown message type");
  }
  // A refusal has only an error, so its payload is not checked.
  if (!error) {
    known(payload);
  }
  checkTime(e);
  return {
    id, type, echo, inReplyTo, payload: payload.all,
    actor: actor?.all as Actor | undefined,
    error: error?.all as unknown as WireError | undefined,
  };
}

/** Reads the echoed fields with take; absent ones stay absent. */
function echoOf(doc: JSONObject, take: (doc: JSONObject, name: keyof Echo) => string | undefined): Echo {
  const echo: Echo = {};
  for (const name of ["request_id", "correlation_id", "causation_id"] as const) {
    const value = take(doc, name);
    if (value !== undefined) {
      echo[name] = value;
    }
  }
  return echo;
}

/** Returns a field of a refused message if it may be repeated in the refusal. */
function readable(doc: JSONObject, name: string): string | undefined {
  const value = Object.hasOwn(doc, name) ? doc[name] : undefined;
  return typeof value === "string" && value !== "" && Buffer.byteLength(value) <= maxIDBytes ? value : undefined;
}

function checkTime(e: Fields): void {
  const ts = e.text("ts", maxIDBytes) ?? "";
  const form = timeForm.exec(ts);
  // Date.parse accepts the 30th of February as the 2nd of March, so compare the day.
  const day = ts.slice(0, 10);
  const date = new Date(`${day}T00:00:00Z`);
  if (!form || Number.isNaN(date.getTime()) || !date.toISOString().startsWith(day)) {
    e.fail("ts", "must be an RFC 3339 time");
  }
}

function checkActor(actor: Fields): void {
  actor.oneOf("type", ["human", "agent", "system"]);
  actor.id("id");
  actor.optionalID("display");
}

function checkError(error: Fields): void {
  if (!validCode(error.text("code", maxIDBytes))) {
    error.fail("code", "must be a dotted lower-case code");
  }
  if (!fitsMessage(error.text("message", Infinity) ?? "")) {
    error.fail("message", "too long");
  }
  error.text("where", maxTypeBytes);
  error.boolean("retryable");
  error.object("details");
  error.object("debug");
}

/** The payload of each type (OS-4); other fields are ignored (OS-6.2.1). */
const payloads: Record<string, (p: Fields) => void> = {
  "core.welcome": (p) => {
    p.positive("heartbeat_interval_ms");
    p.positive("max_frame_bytes");
    p.positive("accepted_version");
    p.id("session_id");
    const server = p.object("server");
    server?.text("core_version", Infinity);
    server?.text("instance_id", Infinity);
  },
  "core.goodbye": (p) => {
    p.id("reason");
    p.count("retry_after_ms");
  },
  "core.tools.registered": (p) => {
    p.strings("registered");
    for (const rejected of p.objects("rejected")) {
      rejected.text("tool_id", Infinity);
      checkError(rejected.object("error") ?? rejected.fail("error", "required"));
    }
  },
  "core.tools.unregistered": (p) => p.strings("tool_ids"),
  "core.tool.call": (p) => {
    const [agent, name, more] = p.id("tool_id", Infinity).split("/");
    if (!validAgentID(agent) || !validToolName(name) || more !== undefined) {
      p.fail("tool_id", "must be <agent_id>/<tool_name>");
    }
    if (!p.object("input")) {
      p.fail("input", "must be an object");
    }
    p.id("call_id");
    p.optionalID("idempotency_key");
    p.count("timeout_ms");
    const caller = p.object("caller");
    caller?.oneOf("type", ["human", "agent", "system"]);
    caller?.text("id", Infinity);
    const context = p.object("context");
    context?.text("project_root", Infinity);
    context?.strings("resource_paths");
    context?.object("ui");
  },
  "core.tool.cancel": (p) => {
    p.id("call_id");
    p.optionalID("reason");
    p.count("deadline_ms");
  },
  "core.ping": () => {},
  "core.error": () => {},
};

/** One of our messages. Undefined members of payload are left out. */
export interface Outgoing {
  type: string;
  inReplyTo?: string | undefined;
  echo?: Echo;
  error?: WireError;
  payload: object;
}

/**
 * Encodes a message. spliced, if given, is the JSON text of one more member of
 * the payload, so that a large output is not encoded twice.
 */
export function encode(m: Outgoing, spliced?: { name: string; text: string }): string {
  let payload = JSON.stringify(m.payload);
  if (spliced) {
    payload = `${payload.slice(0, -1)},${JSON.stringify(spliced.name)}:${spliced.text}}`;
  }
  const envelope = JSON.stringify({
    v: protocolVersion,
    type: m.type,
    id: randomUUID(),
    ts: new Date().toISOString(),
    in_reply_to: m.inReplyTo,
    ...m.echo,
    error: m.error,
  });
  return `${envelope.slice(0, -1)},"payload":${payload}}`;
}

/** Encodes the answer to a message that could not be handled. */
export function encodeComplaint(inReplyTo: string, echo: Echo, error: WireError): string {
  return encode({ type: "agent.error", inReplyTo, echo, error: { ...error, where: "agent.runtime" }, payload: {} });
}
