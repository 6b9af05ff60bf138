import assert from "node:assert/strict";
import { test } from "node:test";

import { AgentError, type Call } from "../src/lightwork-agent.js";
import { checkEcho, gate, standstill, tool, withNode } from "./node.js";

test("stream", () =>
  withNode(async (n) => {
    const errors: unknown[] = [];
    let kept: Call | undefined;
    const attempt = (p: Promise<void>) => p.catch((err: unknown) => void errors.push((err as AgentError).code ?? (err as Error).name));
    await n.serve([tool("x", async (call) => {
      kept = call;
      await attempt(call.stream("stdout", "a"));
      void call.stream("stderr", ""); // not awaited: the order holds
      void call.stream("log", "c\ud800");
      await attempt(call.partial({ p: 1 }));
      await attempt(call.stream("status", "€".repeat(30_000)));
      await attempt(call.stream("stdout", "x".repeat(150_000))); // the second chunk is too much
      await attempt(call.stream("partial_result" as "log", ""));
      await attempt(call.partial([]));
      await attempt(call.done());
      await attempt(call.stream("stdout", "after done"));
    })], { maxStreamBytes: 200_000 });
    n.call("1", "x");
    const want = [["stdout", 1], ["stderr", 0], ["log", 4], ["partial_result", 7], ["status", 65535], ["status", 24465], ["stdout", 65536], ["status", 0]];
    for (const [i, [channel, size]] of want.entries()) {
      const m = await n.recv("agent.tool.stream");
      checkEcho(m, "1");
      const { call_id, seq, data, done, channel: got } = m["payload"];
      const bytes = Buffer.byteLength(data.text ?? JSON.stringify(data.json));
      assert.deepEqual([call_id, seq, got, bytes, done], ["1", i + 1, channel, size, i === 7 ? true : undefined]);
    }
    assert.equal((await n.result())["status"], "succeeded");
    await attempt(kept?.stream("log", "after the result") ?? Promise.resolve());
    assert.deepEqual(errors, ["stream_limit", "TypeError", "TypeError", "stream_ended", "stream_ended"]);
  }));

test("a node that does not read holds the stream back, and nothing is lost", () =>
  withNode(async (n) => {
    let sent = 0;
    const total = 600; // 64 KiB each: far more than all buffers hold
    await n.serve([tool("x", async (call) => {
      for (; sent < total; sent++) {
        await call.stream("stdout", "x".repeat(65_536));
      }
    })], { maxStreamBytes: 1 << 30 });
    n.socket.pause();
    n.call("1", "x");
    await standstill(() => sent);
    assert.ok(sent > 10 && sent < 300, `${sent} chunks were taken`);
    n.socket.resume();
    for (let i = 0; i < total; i++) {
      assert.equal((await n.recv("agent.tool.stream"))["payload"].seq, i + 1);
    }
    await n.result();
  }));

test("a pong passes a stream that waits", () =>
  withNode(async (n) => {
    let sent = 0;
    await n.serve([tool("x", async (call) => {
      for (; ; sent++) {
        await call.stream("stdout", "x".repeat(65_536));
      }
    })], { maxStreamBytes: 2 ** 40 });
    n.socket.pause();
    n.call("1", "x");
    await standstill(() => sent);
    n.send("core.ping", {});
    n.socket.resume();
    let before = 0;
    for (let m = await n.next(); m?.["type"] !== "agent.pong"; m = await n.next()) {
      assert.ok(m);
      before++;
    }
    assert.ok(before < 100, `${before} chunks came before the pong, of ${sent} that waited`);
    n.send("core.tool.cancel", { call_id: "1" });
  }));

test("a canceled stream ends, though the node does not read", () =>
  withNode(async (n) => {
    const { opened, open } = gate();
    let sent = 0;
    await n.serve([tool("x", async (call) => {
      try {
        for (; ; sent++) {
          await call.stream("stdout", "x".repeat(65_536));
        }
      } finally {
        open();
      }
    })], { maxStreamBytes: 2 ** 40 });
    n.socket.pause();
    n.call("1", "x");
    await standstill(() => sent);
    n.send("core.tool.cancel", { call_id: "1" });
    await opened;
    n.socket.resume();
    let m = await n.next();
    while (m && m["type"] !== "agent.tool.result") {
      m = await n.next();
    }
    assert.equal(m?.["payload"].status, "canceled");
  }));
