import assert from "node:assert/strict";
import { test } from "node:test";

import { Agent } from "../src/lightwork-agent.js";
import { agentID, frame, setEnvironment, token, tool, withNode } from "./node.js";

const nothing = tool("x", () => {});

test("handshake, registration and heartbeats", () =>
  withNode(async (n, stderr) => {
    const schema = { type: "object", properties: { a: { type: "string" } } };
    await n.dial(
      [tool("x", () => {}, { description: "d", inputSchema: schema, outputSchema: schema, sideEffects: true, requiresDirective: true, tags: ["t"] }), tool("y", () => {})],
      { manifestHash: "abc" },
    );
    assert.equal(process.env["OPENSENTIENCE_SESSION_TOKEN"], undefined, "the token is still in the environment");
    const hello = (await n.recv("agent.hello"))["payload"];
    assert.deepEqual(hello, {
      session_token: token, agent_id: agentID, agent_version: "1.0.0", manifest_hash: "abc",
      protocol: { supported_versions: [1], capabilities: ["tools", "streaming", "cancellation"] },
      sdk: { name: "lightwork-agent", version: "1.0.0" },
    });
    n.welcome({ heartbeat_interval_ms: 5, unknown: true });
    const { tools, replace } = (await n.recv("agent.tools.register"))["payload"];
    assert.equal(replace, true);
    assert.deepEqual(tools[0], {
      tool_id: `${agentID}/x`, name: "x", description: "d", input_schema: schema, output_schema: schema,
      capabilities: ["streaming", "cancellation"], side_effects: true, requires_directive: true, tags: ["t"],
    });
    assert.deepEqual(tools[1].input_schema, { type: "object" });
    n.send("core.tools.registered", { registered: [], rejected: [{ tool_id: "x", error: { code: "a.b", message: "no" } }] });
    for (let i = 0; i < 3; i++) {
      const beat = (await n.recv("agent.heartbeat"))["payload"];
      assert.equal(beat.session_id, "s1");
      assert.equal(beat.status, "ok");
      assert.equal(beat.inflight_calls, 0);
      assert.ok(Number.isInteger(beat.uptime_ms));
    }
    assert.match(stderr(), /tool rejected: x: a\.b no/);
  }));

const refusals: Array<[string, (n: Parameters<Parameters<typeof withNode>[0]>[0]) => void, string]> = [
  ["refused", (n) => n.send("core.welcome", {}, { error: { code: "protocol.unauthorized", message: "no" } }), "unauthorized"],
  ["another version", (n) => n.welcome({ accepted_version: 2 }), "unauthorized"],
  ["no welcome", (n) => n.send("core.ping", {}), "protocol"],
  ["a welcome without a session", (n) => n.welcome({ session_id: "" }), "protocol"],
  ["a welcome without an interval", (n) => n.welcome({ heartbeat_interval_ms: 0 }), "protocol"],
  ["no JSON", (n) => n.sendText("{nonsense}"), "protocol"],
  ["closed", (n) => n.socket.destroy(), "disconnected"],
  ["tools too large for the node", (n) => n.welcome({ max_frame_bytes: 10 }), "config"],
];
for (const [name, answer, code] of refusals) {
  test(`handshake fails: ${name}`, () =>
    withNode(async (n) => {
      await n.dial([nothing]);
      await n.recv("agent.hello");
      answer(n);
      assert.equal((await n.failure()).code, code);
      assert.equal(await n.next(), undefined, "the agent keeps the connection");
    }));
}

test("an agent that cannot start says why", async () => {
  for (const name of ["OPENSENTIENCE_SOCKET_PATH", "OPENSENTIENCE_SESSION_TOKEN", "OPENSENTIENCE_AGENT_ID"]) {
    setEnvironment("/nowhere/s");
    delete process.env[name];
    await assert.rejects(new Agent({ version: "1.0.0" }).serve(), { code: "config", message: new RegExp(name) });
  }
  setEnvironment("/nowhere/s");
  await assert.rejects(new Agent({ version: "1.0.0" }).serve(), { code: "disconnected", message: /ENOENT/ });
  assert.throws(() => new Agent({ version: "one" }), { code: "config" });
  assert.throws(() => new Agent({ version: "1.0.0", maxInflight: 0 }), { code: "config" });
  const agent = new Agent({ version: "1.0.0" });
  agent.tool(nothing);
  for (const bad of [nothing, tool("a/b", () => {}), tool("é", () => {}), tool("", () => {}), { name: "z", description: "" } as typeof nothing]) {
    assert.throws(() => agent.tool(bad), { code: "config" });
  }
  assert.throws(() => agent.tool(tool("z", () => {}, { inputSchema: { type: 7 } })), { code: "config", message: /type/ });
  assert.throws(() => agent.tool(tool("z", () => {}, { timeoutMs: -1 })), { code: "config" });
});

test("goodbye ends the run and its calls", () =>
  withNode(async (n) => {
    let reason: Error | undefined;
    await n.serve([tool("waits", (call) => new Promise((resolve) => {
      call.signal.addEventListener("abort", () => {
        reason = call.signal.reason as Error;
        resolve();
      });
    }))]);
    n.call("1", "waits");
    n.send("core.goodbye", { reason: "shutdown\n", retry_after_ms: 5 });
    n.send("core.ping", {}, { request_id: "r" }); // nothing is read after the goodbye
    assert.deepEqual(await n.ended, { reason: "shutdown ", retryAfterMs: 5 });
    assert.equal(reason?.name, "CallCanceled");
    await n.result();
    assert.equal(await n.next(), undefined);
  }));

test("an abort of the run lets results out", () =>
  withNode(async (n) => {
    await n.serve([tool("waits", (call) => new Promise((_, reject) => {
      call.signal.addEventListener("abort", () => reject(call.signal.reason as Error));
    }))]);
    n.call("1", "waits");
    n.send("core.ping", {}, { id: "p" }); // once it is answered, the call has been read
    assert.equal((await n.recv("agent.pong"))["in_reply_to"], "p");
    n.stop.abort();
    assert.equal((await n.result())["status"], "canceled");
    assert.equal(await n.ended, undefined);
    assert.equal(await n.next(), undefined);
  }));

test("a handler that ignores its signal does not keep the session", () =>
  withNode(async (n) => {
    await n.serve([tool("deaf", () => new Promise(() => {}))]);
    n.call("1", "deaf");
    n.send("core.goodbye", { reason: "shutdown" });
    assert.equal((await n.ended)?.reason, "shutdown");
  }));

test("a lost connection ends the run", () =>
  withNode(async (n) => {
    let aborted = false;
    await n.serve([tool("waits", (call) => new Promise((resolve) => {
      call.signal.addEventListener("abort", () => ((aborted = true), resolve()));
    }))]);
    n.call("1", "waits");
    n.send("core.ping", {});
    await n.recv("agent.pong");
    n.socket.destroy();
    assert.equal((await n.failure()).code, "disconnected");
    assert.ok(aborted);
  }));

test("unknown types, wrong directions and broken messages", () =>
  withNode(async (n, stderr) => {
    await n.serve([nothing]);
    n.send("core.dance", {}); // expects no reply: ignored
    n.send("core.dance", {}, { id: "m1", request_id: "r1", correlation_id: "c1", causation_id: "d1" });
    n.send("agent.pong", {}, { id: "m2", request_id: "r2" });
    n.send("core.tool.call", {}, { id: "m3", request_id: "r3" });
    n.sendText("{nonsense}");
    n.send("core.error", {}, { error: { code: "a.b", message: "" } });
    const codes = ["protocol.unknown_type", "protocol.wrong_direction", "protocol.invalid_message"];
    for (const [i, code] of codes.entries()) {
      const m = await n.recv("agent.error");
      assert.deepEqual([m["in_reply_to"], m["request_id"], m["error"].code], [`m${i + 1}`, `r${i + 1}`, code]);
      assert.equal(m["correlation_id"], i === 0 ? "c1" : undefined);
      assert.deepEqual(m["payload"], {});
    }
    n.call("1", "x", {}, { unknown: 1 });
    assert.equal((await n.result())["status"], "succeeded");
    assert.match(stderr(), /the node refused a message: a\.b/);
  }));

const good = JSON.stringify({ v: 1, type: "core.ping", id: "p", ts: "2026-01-16T12:00:00Z", payload: {} });

test("frames in any cut, and several in one read", () =>
  withNode(async (n) => {
    await n.serve([nothing]);
    n.socket.setNoDelay();
    for (const byte of frame(good)) {
      n.socket.write(Buffer.of(byte));
      await new Promise(setImmediate);
    }
    n.socket.write(Buffer.concat([frame(good), frame(good.replace("{}", "{\n\n}")), frame(`  ${good}\r\n\t`)]));
    for (let i = 0; i < 4; i++) {
      assert.equal((await n.recv("agent.pong"))["in_reply_to"], "p");
    }
  }));

const hostile: Record<string, Buffer> = {
  "one byte over the limit": Buffer.from([0, 0, 3, 233]),
  "all ones": Buffer.from([255, 255, 255, 255]),
  "empty": Buffer.from([0, 0, 0, 0]),
  "an array": frame("[]"),
  "a string": frame('"{}"'),
  "not UTF-8": frame(Buffer.from([0x7b, 0xff, 0x7d])),
  "a byte order mark": frame(`\ufeff${good}`),
  "an overlong encoding": frame(Buffer.from([0x7b, 0xc0, 0x80, 0x7d])),
};
for (const [name, bytes] of Object.entries(hostile)) {
  test(`a frame that ends the session: ${name}`, () =>
    withNode(async (n) => {
      await n.serve([nothing], { maxFrameBytes: 1000 });
      n.socket.write(bytes);
      assert.equal((await n.failure()).code, "protocol");
      assert.equal(await n.next(), undefined);
    }));
}

test("after a bad frame nothing more is said, though a call runs", () =>
  withNode(async (n) => {
    await n.serve([tool("waits", (call) => new Promise((resolve) => {
      call.signal.addEventListener("abort", () => resolve({}));
    }))]);
    n.call("1", "waits");
    n.socket.write(Buffer.of(255, 255, 255, 255));
    assert.equal((await n.failure()).code, "protocol");
    assert.equal(await n.next(), undefined);
  }));

test("a frame of exactly the limit passes", () =>
  withNode(async (n) => {
    await n.serve([nothing], { maxFrameBytes: 1000 });
    n.sendText(good + " ".repeat(1000 - good.length));
    await n.recv("agent.pong");
  }));

test("half a header and half a body are a lost connection", async () => {
  for (const part of [Buffer.from([0, 0]), frame(good).subarray(0, 20)]) {
    await withNode(async (n) => {
      await n.serve([nothing]);
      n.socket.end(part);
      assert.equal((await n.failure()).code, "disconnected");
    });
  }
});
