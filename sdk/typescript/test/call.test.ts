import assert from "node:assert/strict";
import { test } from "node:test";

import { ToolError, type Call } from "../src/lightwork-agent.js";
import { agentID, checkEcho, gate, tool, withNode, type Wire } from "./node.js";

const untilAborted = (call: Call) =>
  new Promise<void>((_, reject) => {
    call.signal.addEventListener("abort", () => reject(call.signal.reason as Error));
  });

const circular: Wire = {};
circular["self"] = circular;

const outcomes: Array<[string, Parameters<typeof tool>[1], unknown, string]> = [
  ["an object", () => ({ ok: true }), { ok: true }, ""],
  ["nothing", async () => {}, {}, ""],
  ["its own error", () => { throw new ToolError("shop.closed", "come\nback\u0007", { retryable: true, details: { at: 9 } }); },
    { code: "shop.closed", message: "come back", retryable: true, details: { at: 9 }, where: "agent.runtime" }, "shop.closed"],
  ["an error with a bad code", () => { throw new ToolError("Closed!", "x"); }, { code: "tool.failed", message: "x", where: "agent.runtime" }, "tool.failed"],
  ["an error with bad details", () => { throw new ToolError("a.b", "x", { details: circular }); }, { code: "a.b", message: "x", where: "agent.runtime" }, "a.b"],
  ["an error too long", () => { throw new ToolError("a.b", "€".repeat(1000)); }, { code: "a.b", message: "€".repeat(682), where: "agent.runtime" }, "a.b"],
  ["any other error", () => { throw new Error("canary"); }, undefined, "tool.failed"],
  ["a rejection", () => Promise.reject(new Error("canary")), undefined, "tool.failed"],
  ["a string", () => { throw "canary"; }, undefined, "tool.internal"],
  ["a bug", () => { throw new ReferenceError("canary"); }, undefined, "tool.internal"],
  ["an array", () => [1], undefined, "tool.invalid_output"],
  ["text", () => "canary" as unknown as object, undefined, "tool.invalid_output"],
  ["a function", () => () => {}, undefined, "tool.invalid_output"],
  ["a cycle", () => circular, undefined, "tool.failed"],
  ["half a surrogate pair", () => ({ x: "\ud800" }), undefined, "tool.invalid_output"],
  ["text that looks like one", () => ({ x: "\\ud800" }), { x: "\\ud800" }, ""],
  ["too much", () => ({ x: "€".repeat(40) }), undefined, "tool.output_too_large"],
];

test("outcomes", () =>
  withNode(async (n, stderr) => {
    await n.serve(outcomes.map(([, handler], i) => tool(`t${i}`, handler)), { maxOutputBytes: 100 });
    for (const [i, [name, , want, code]] of outcomes.entries()) {
      n.call(`${i}`, `t${i}`);
      const r = await n.result();
      assert.equal(r["call_id"], `${i}`, name);
      assert.equal(r["status"], code === "" ? "succeeded" : "failed", name);
      assert.equal(r["error"]?.code ?? "", code, name);
      if (want !== undefined) {
        assert.deepEqual(code === "" ? r["output"] : r["error"], want, name);
      }
      assert.ok(!JSON.stringify(r).includes("canary") && !JSON.stringify(r).includes("at "), name);
      assert.ok(r["started_at"] <= r["finished_at"], name);
    }
    assert.match(stderr(), /canary[^]*call\.test/, "the trace is on stderr");
  }));

test("what a handler sees", () =>
  withNode(async (n) => {
    let seen: Call | undefined;
    await n.serve([tool("x", (call) => void (seen = call), { timeoutMs: 50_000 })]);
    n.call("1", "x", { a: 1, __proto__: null }, {
      timeout_ms: 60_000, idempotency_key: "k", caller: { type: "human", id: "u" }, context: { project_root: "/p" },
    });
    await n.result();
    assert.ok(seen);
    assert.deepEqual(
      [seen.id, seen.tool, seen.input, seen.requestId, seen.correlationId, seen.causationId, seen.idempotencyKey, seen.timeoutMs, seen.context],
      ["1", "x", { a: 1 }, "r-1", "c-1", "d-1", "k", 50_000, { project_root: "/p" }],
    );
  }));

test("input that breaks the schema", () =>
  withNode(async (n) => {
    const inputSchema = { type: "object", required: ["a"], properties: { a: { type: "integer" } }, additionalProperties: false };
    let ran = 0;
    await n.serve([tool("x", () => void ran++, { inputSchema })]);
    for (const [input, message] of [[{}, "missing a"], [{ a: "canary" }, "/a: got string, want integer"], [{ a: 1, b: 2 }, "unknown b"]] as const) {
      n.call("1", "x", input);
      const r = await n.result();
      assert.deepEqual([r["status"], r["error"].code, r["error"].message], ["failed", "tool.invalid_input", message]);
    }
    n.call("2", "x", { a: 1 });
    assert.equal((await n.result())["status"], "succeeded");
    assert.equal(ran, 1);
  }));

test("calls run at once, up to the limit; an id is taken while its call runs", () =>
  withNode(async (n) => {
    const { opened, open } = gate();
    await n.serve([tool("wait", () => opened), tool("quick", () => {})]);
    for (let i = 0; i < 255; i++) {
      n.call(`${i}`, "wait");
    }
    n.call("255", "quick");
    assert.equal((await n.result())["call_id"], "255");
    n.call("256", "wait");
    n.call("257", "quick");
    const over = await n.result();
    assert.deepEqual([over["call_id"], over["error"].code, over["error"].retryable], ["257", "tool.overloaded", true]);
    n.call("7", "quick");
    const twice = await n.recv("agent.error");
    assert.equal(twice["error"].code, "protocol.duplicate_call");
    assert.equal(twice["in_reply_to"], "m-7");
    checkEcho(twice, "7");
    open();
    const ids = new Set<string>();
    for (let i = 0; i < 256; i++) {
      ids.add((await n.result())["call_id"] as string);
    }
    assert.equal(ids.size, 256);
    n.call("7", "quick"); // free again
    assert.equal((await n.result())["status"], "succeeded");
    n.call("8", "none");
    assert.equal((await n.result())["error"].code, "tool.unavailable");
  }));

test("cancel", () =>
  withNode(async (n) => {
    await n.serve([tool("obeys", untilAborted), tool("finishes", (call) => untilAborted(call).catch(() => ({ n: 1 })))]);
    for (const [name, status] of [["obeys", "canceled"], ["finishes", "succeeded"]]) {
      n.call("1", name ?? "");
      n.send("core.tool.cancel", { call_id: "1", reason: "enough", deadline_ms: 100 }, { id: "k" });
      const ack = await n.recv("agent.tool.cancel_ack");
      assert.equal(ack["in_reply_to"], "k");
      assert.deepEqual(ack["payload"], { call_id: "1", accepted: true });
      checkEcho(ack, "1");
      const r = await n.result();
      assert.equal(r["status"], status);
      assert.equal(r["error"]?.code, status === "canceled" ? "tool.canceled" : undefined);
    }
    n.send("core.tool.cancel", { call_id: "1" }, { id: "k2" });
    assert.deepEqual((await n.recv("agent.tool.cancel_ack"))["payload"], { call_id: "1", accepted: false });
    n.send("core.ping", {}); // no second result came before this
    await n.recv("agent.pong");
  }));

test("the stricter time limit holds", () =>
  withNode(async (n) => {
    await n.serve([tool("own", untilAborted, { timeoutMs: 5 }), tool("callers", untilAborted)]);
    n.call("1", "own", {}, { timeout_ms: 3_600_000 });
    n.call("2", "callers", {}, { timeout_ms: 5 });
    for (let i = 0; i < 2; i++) {
      const r = await n.result();
      assert.deepEqual([r["status"], r["error"].code, r["error"].retryable], ["failed", "tool.timeout", true]);
    }
  }));

test("nothing of a call is left after its result", () =>
  withNode(async (n) => {
    const timers = () => process.getActiveResourcesInfo().filter((r) => r === "Timeout").length;
    let kept: Call | undefined;
    await n.serve([tool("x", (call) => void (kept = call))]);
    const before = timers();
    n.call("1", "x", {}, { timeout_ms: 3_600_000 });
    await n.result();
    assert.equal(timers(), before, "its timer is");
    await assert.rejects(kept?.stream("log", "late") ?? Promise.resolve(), { code: "stream_ended" });
    await assert.rejects(kept?.partial({}) ?? Promise.resolve(), { code: "stream_ended" });
  }));

test("one idempotency key, one side effect, one outcome", () =>
  withNode(async (n) => {
    let runs = 0;
    const { opened, open } = gate();
    await n.serve([
      tool("counts", async () => (await opened, { n: ++runs })),
      tool("retry", () => { throw new ToolError("a.b", `${++runs}`, { retryable: true }); }),
      tool("waits", untilAborted),
    ]);
    const key = { idempotency_key: "k" };
    n.call("1", "counts", { a: 1 }, key);
    n.call("2", "counts", { a: 1 }, key);
    n.call("3", "counts", { a: 2 }, key);
    assert.equal((await n.result())["error"].code, "tool.invalid_input");
    open();
    n.call("4", "counts", { a: 1 }, key);
    for (let i = 0; i < 3; i++) {
      assert.deepEqual((await n.result())["output"], { n: 1 });
    }
    n.call("5", "retry", {}, key); // the key is the tool's own; a retryable failure is not kept
    assert.equal((await n.result())["error"].message, "2");
    n.call("6", "retry", {}, key);
    assert.equal((await n.result())["error"].message, "3");
    n.call("7", "waits", {}, key);
    n.call("8", "waits", {}, key); // waits for 7, and gives up by itself
    n.send("core.tool.cancel", { call_id: "8" });
    await n.recv("agent.tool.cancel_ack");
    assert.deepEqual(await n.result().then((r) => [r["call_id"], r["status"]]), ["8", "canceled"]);
    n.send("core.tool.cancel", { call_id: "7" });
    await n.recv("agent.tool.cancel_ack");
    assert.equal((await n.result())["call_id"], "7");
  }));

test("an output larger than the node's frames is refused", () =>
  withNode(async (n) => {
    await n.serve([tool("x", (call) => ({ x: "x".repeat(call.input["n"]) }))], {}, { max_frame_bytes: 40_000 });
    n.call("1", "x", { n: 23_000 });
    assert.equal((await n.result())["status"], "succeeded");
    n.call("2", "x", { n: 24_000 });
    assert.equal((await n.result())["error"].code, "tool.output_too_large");
  }));

test("another agent's tool is not run", () =>
  withNode(async (n) => {
    await n.serve([tool("x", () => {})]);
    n.send("core.tool.call", { call_id: "1", tool_id: "other/x", input: {} }, { id: "m-1", request_id: "r-1", correlation_id: "c-1", causation_id: "d-1" });
    assert.equal((await n.result())["error"].code, "tool.unavailable");
    n.send("core.tool.call", { call_id: "2", tool_id: `${agentID}/x/y`, input: {} }, { request_id: "r" });
    assert.equal((await n.recv("agent.error"))["error"].code, "protocol.invalid_message");
  }));
