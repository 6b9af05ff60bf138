import assert from "node:assert/strict";
import { test } from "node:test";

import { safeText } from "../src/errors.js";
import { DecodeError } from "../src/fields.js";
import { parseStrict } from "../src/json.js";
import { compileSchema } from "../src/schema.js";
import { decode } from "../src/wire.js";

const call = {
  v: 1, type: "core.tool.call", id: "m", ts: "2026-01-16T12:00:00.123+01:00", request_id: "r",
  payload: { call_id: "1", tool_id: "a.b/c", input: {} },
};

function refusal(doc: unknown): DecodeError {
  try {
    decode(typeof doc === "string" ? doc : JSON.stringify(doc));
  } catch (err) {
    assert.ok(err instanceof DecodeError, String(err));
    assert.ok(!err.message.includes("canary"));
    return err;
  }
  throw new assert.AssertionError({ message: `accepted ${JSON.stringify(doc)}` });
}

test("a good call, with fields nobody knows", () => {
  const m = decode(JSON.stringify({ ...call, more: 1, payload: { ...call.payload, more: 1, timeout_ms: null } }));
  assert.deepEqual([m.type, m.id, m.echo], ["core.tool.call", "m", { request_id: "r" }]);
});

test("envelopes that are refused", () => {
  const long = "x".repeat(257);
  const bad: Array<[object, string, string]> = [
    ...["v", "type", "id", "ts", "payload"].map((name): [object, string, string] => [{ [name]: undefined }, "protocol.invalid_message", name]),
    [{ v: null }, "protocol.invalid_message", "v"],
    [{ v: 2 }, "protocol.unsupported_version", "v"],
    [{ v: "1" }, "protocol.invalid_message", "v"],
    [{ type: "agent.tool.call" }, "protocol.wrong_direction", "type"],
    [{ type: "core." }, "protocol.wrong_direction", "type"],
    [{ type: "constructor" }, "protocol.wrong_direction", "type"],
    [{ type: "core.toString" }, "protocol.unknown_type", "type"],
    [{ type: "core." + "x".repeat(100) }, "protocol.invalid_message", "type"],
    [{ id: "" }, "protocol.invalid_message", "id"],
    [{ id: long }, "protocol.invalid_message", "id"],
    [{ id: "€".repeat(86) }, "protocol.invalid_message", "id"],
    [{ request_id: 1 }, "protocol.invalid_message", "request_id"],
    [{ correlation_id: long }, "protocol.invalid_message", "correlation_id"],
    [{ payload: [] }, "protocol.invalid_message", "payload"],
    [{ payload: "canary" }, "protocol.invalid_message", "payload"],
    [{ actor: { type: "robot", id: "x" } }, "protocol.invalid_message", "actor.type"],
    [{ actor: { type: "human" } }, "protocol.invalid_message", "actor.id"],
    [{ error: { code: "Bad", message: "" } }, "protocol.invalid_message", "error.code"],
    [{ error: { code: "a.b", message: "x".repeat(2049) } }, "protocol.invalid_message", "error.message"],
    [{ error: { code: "a.b", message: "", details: [] } }, "protocol.invalid_message", "error.details"],
    ...["yesterday", "2026-01-16", "2026-02-30T00:00:00Z", "2026-01-16T24:00:00Z", "2026-01-16T12:00:60Z", "2026-01-16t12:00:00z", "2026-13-01T00:00:00Z"].map(
      (ts): [object, string, string] => [{ ts }, "protocol.invalid_message", "ts"],
    ),
  ];
  for (const [change, code, field] of bad) {
    const err = refusal({ ...call, ...change });
    assert.deepEqual([err.code, err.field], [code, field], JSON.stringify(change));
  }
  assert.deepEqual([refusal({ ...call, v: 2 }).id, refusal({ ...call, v: 2 }).echo], ["m", { request_id: "r" }]);
});

test("payloads that are refused", () => {
  const bad: Array<[string, object, string]> = [
    ["core.tool.call", { ...call.payload, call_id: "" }, "call_id"],
    ["core.tool.call", { ...call.payload, tool_id: "bare" }, "tool_id"],
    ["core.tool.call", { ...call.payload, input: [] }, "input"],
    ["core.tool.call", { ...call.payload, input: null }, "input"],
    ["core.tool.call", { ...call.payload, timeout_ms: -1 }, "timeout_ms"],
    ["core.tool.call", { ...call.payload, timeout_ms: 1.5 }, "timeout_ms"],
    ["core.tool.call", { ...call.payload, timeout_ms: 1e300 }, "timeout_ms"],
    ["core.tool.call", { ...call.payload, idempotency_key: {} }, "idempotency_key"],
    ["core.tool.call", { ...call.payload, caller: { type: "robot" } }, "caller.type"],
    ["core.tool.call", { ...call.payload, context: { resource_paths: [1] } }, "context.resource_paths"],
    ["core.tool.cancel", {}, "call_id"],
    ["core.goodbye", {}, "reason"],
    ["core.welcome", { session_id: "s", accepted_version: 1, heartbeat_interval_ms: 1 }, "max_frame_bytes"],
    ["core.tools.registered", { rejected: [{ tool_id: "x" }] }, "rejected.error"],
    ["core.tools.registered", { rejected: ["x"] }, "rejected"],
  ];
  for (const [type, payload, field] of bad) {
    assert.equal(refusal({ ...call, type, payload }).field, `payload.${field}`, JSON.stringify(payload));
  }
  decode(JSON.stringify({ ...call, type: "core.welcome", payload: {}, error: { code: "a.b", message: "" } }));
});

test("JSON that is refused", () => {
  const bad: Record<string, string> = {
    '{"canary"': "not JSON",
    "{'a':1}": "not JSON",
    '{"a":01}': "not JSON",
    '{"a":1,"a":2}': "a name occurs twice",
    '{"a":1 , "\\u0061"\n:2}': "a name occurs twice",
    '[{"x":{"a":[],"b":1,"a":{}}}]': "a name occurs twice",
    '{"a":"\\ud800"}': "half a surrogate pair",
    '{"\\udc00":1}': "half a surrogate pair",
  };
  for (const [text, message] of Object.entries(bad)) {
    assert.throws(() => parseStrict(text), { name: "SyntaxError", message }, text);
  }
  for (const text of ['{"a":"a","b":["a","a"],"c":{"a":1}}', '{"a\\"":1,"a":"\\ud83d\\ude00","\\\\":2}', '{"a":{"b":1},"b":2}']) {
    assert.deepEqual(parseStrict(text), JSON.parse(text));
  }
  const deep = "[".repeat(1_000_000);
  assert.throws(() => parseStrict(deep), SyntaxError);
  assert.throws(() => parseStrict(deep + "]".repeat(1_000_000)), { message: "nested too deep" });
});

test("schema", () => {
  const cases: Array<[unknown, unknown[], unknown[]]> = [
    [{ type: "object" }, [{}], [[], null, 1, "x"]],
    [{ type: ["string", "null"] }, ["", null], [1, {}]],
    [{ type: "integer" }, [1, 1.0, -0], [1.5, "1", null]],
    [{ enum: [1, { a: [1] }] }, [1, { a: [1] }], [2, { a: [] }]],
    [{ const: null }, [null], [0, {}]],
    [{ required: ["toString"] }, [{ toString: 1 }, "no object"], [{}]],
    [{ properties: { a: { type: "string" } } }, [{}, { a: "" }, { b: 1 }], [{ a: 1 }]],
    [{ properties: { a: true }, patternProperties: { "^x": { type: "string" } }, additionalProperties: false }, [{ a: 1, xy: "" }], [{ b: 1 }, { xy: 1 }]],
    [{ additionalProperties: { type: "number" } }, [{ a: 1 }], [{ a: "" }, { constructor: "" }]],
    [{ items: { type: "number" }, minItems: 1, maxItems: 2 }, [[1], [1, 2]], [[], [1, 2, 3], [""]]],
    [{ prefixItems: [{ type: "string" }], items: { type: "number" } }, [["", 1], []], [[1], ["", ""]]],
    [{ minimum: 1, maximum: 2 }, [1, 2, "x"], [0, 3]],
    [{ exclusiveMinimum: 1, exclusiveMaximum: 2 }, [1.5], [1, 2]],
    [{ minLength: 2, maxLength: 2 }, ["ab", "😀😀"], ["a", "abc", "😀"]],
    [{ pattern: "^a+$" }, ["aa", 7], ["b"]],
    [{ anyOf: [{ type: "string" }, { minimum: 3 }] }, ["", 3], [2]],
    [{ oneOf: [{ type: "number" }, { minimum: 3 }] }, [2, "x"], [5]],
    [{ allOf: [{ type: "number" }, { minimum: 3 }] }, [3], [2, ""]],
    [{ oneOf: [{ not: {} }, { type: "string" }] }, ["x"], []],
    [{ $ref: "#/$defs/x", format: "date", if: {}, toString: 1 }, [1, {}], []],
    [false, [], [1]],
  ];
  for (const [schema, good, bad] of cases) {
    const check = compileSchema(schema);
    good.forEach((v) => assert.equal(check(v), undefined, JSON.stringify([schema, v])));
    bad.forEach((v) => assert.notEqual(check(v), undefined, JSON.stringify([schema, v])));
  }
  let deep: unknown = 1;
  for (let i = 0; i < 100_000; i++) {
    deep = [deep];
  }
  assert.equal(compileSchema({})(deep), "nested too deep");
  for (const schema of [1, { type: "text" }, { properties: [] }, { pattern: "(" }, { minimum: "1" }, { items: 1 }, { anyOf: {} }]) {
    assert.throws(() => compileSchema(schema), TypeError, JSON.stringify(schema));
  }
  const check = compileSchema({ properties: { "a/b~": { properties: { c: { const: 1 } } } } });
  assert.equal(check({ "a/b~": { c: "canary" } }), "/a~1b~0/c: const does not hold");
});

test("safe text", () => {
  assert.equal(safeText("a\nb\tc\u0000\u009f\ud800"), "a b c\ufffd");
  assert.equal(Buffer.byteLength(safeText("😀".repeat(3000))), 2048);
  assert.equal(safeText("x" + "😀".repeat(3000)).length, 1 + 2 * 511);
});
