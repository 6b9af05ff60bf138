/** The node's end of the protocol: it says exactly what a test wants. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Agent, type AgentConfig, type Goodbye, type Handler, type Tool } from "../src/lightwork-agent.js";

export const agentID = "com.example.test";
export const token = "secret-token-canary";

/** A message as the agent wrote it. */
export type Wire = Record<string, any>;

export class FakeNode {
  readonly stop = new AbortController(); // ends the agent's run
  ended: Promise<Goodbye | undefined> = Promise.resolve(undefined);
  socket!: Socket;
  #server: Server | undefined;
  #dir = mkdtempSync(join(tmpdir(), "lw-"));
  #held = Buffer.alloc(0);
  #messages: Wire[] = [];
  #closed = false;
  #wake: () => void = () => {};

  /** Makes an agent with its environment, runs it and takes its connection. */
  async dial(tools: Tool[], cfg: Partial<AgentConfig> = {}): Promise<void> {
    const path = join(this.#dir, "s");
    const connected = new Promise<Socket>((resolve) => {
      this.#server = createServer({ allowHalfOpen: false }, resolve);
    });
    await new Promise<void>((resolve) => this.#server?.listen(path, resolve));
    setEnvironment(path);
    const agent = new Agent({ version: "1.0.0", ...cfg });
    tools.forEach((t) => agent.tool(t));
    this.ended = agent.serve(this.stop.signal);
    this.ended.catch(() => {}); // a test may ask later
    this.socket = await connected;
    this.socket.on("data", (chunk: Buffer) => this.#take(chunk));
    this.socket.on("error", () => {});
    this.socket.on("close", () => {
      this.#closed = true;
      this.#wake();
    });
  }

  #take(chunk: Buffer): void {
    this.#held = Buffer.concat([this.#held, chunk]);
    while (this.#held.length >= 4 && this.#held.length >= 4 + this.#held.readUInt32BE()) {
      const end = 4 + this.#held.readUInt32BE();
      this.#messages.push(JSON.parse(this.#held.toString("utf8", 4, end)) as Wire);
      this.#held = this.#held.subarray(end);
    }
    this.#wake();
  }

  /** The next message; undefined after the end of the connection. */
  async next(): Promise<Wire | undefined> {
    while (this.#messages.length === 0 && !this.#closed) {
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
    return this.#messages.shift();
  }

  async recv(type: string): Promise<Wire> {
    const m = await this.next();
    assert.ok(m, `the connection ended instead of ${type}`);
    assert.equal(m["type"], type, JSON.stringify(m));
    assert.equal(m["v"], 1);
    assert.match(m["id"], /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/);
    assert.match(m["ts"], /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    return m;
  }

  send(type: string, payload: unknown, more: object = {}): void {
    const m = { v: 1, type, id: randomUUID(), ts: new Date().toISOString(), payload, ...more };
    this.sendText(JSON.stringify(m));
  }

  sendText(text: string | Buffer): void {
    this.socket.write(frame(text));
  }

  welcome(more: object = {}): void {
    this.send("core.welcome", {
      accepted_version: 1, session_id: "s1", heartbeat_interval_ms: 3_600_000, max_frame_bytes: 4 << 20,
      server: { core_version: "1.0.0", instance_id: "i" }, ...more,
    });
  }

  /** Runs an agent through the handshake. */
  async serve(tools: Tool[], cfg: Partial<AgentConfig> = {}, welcome: object = {}): Promise<void> {
    await this.dial(tools, cfg);
    await this.recv("agent.hello");
    this.welcome(welcome);
    await this.recv("agent.tools.register");
    this.send("core.tools.registered", { registered: [] });
    await this.recv("agent.heartbeat");
  }

  call(id: string, tool: string, input: unknown = {}, more: object = {}): void {
    const ids = { id: `m-${id}`, request_id: `r-${id}`, correlation_id: `c-${id}`, causation_id: `d-${id}` };
    this.send("core.tool.call", { call_id: id, tool_id: `${agentID}/${tool}`, input, ...more }, ids);
  }

  /** The payload of the next message, which must be a result that repeats its call's fields. */
  async result(): Promise<Wire> {
    const m = await this.recv("agent.tool.result");
    checkEcho(m, m["payload"].call_id);
    assert.equal(m["in_reply_to"], `m-${m["payload"].call_id}`);
    return m["payload"] as Wire;
  }

  /** What run rejects with. */
  async failure(): Promise<Error & { code?: string }> {
    try {
      await this.ended;
    } catch (err) {
      assert.ok(err instanceof Error && !String(err.stack).includes(token));
      return err;
    }
    throw new assert.AssertionError({ message: "run did not fail" });
  }

  async close(): Promise<void> {
    this.stop.abort();
    await this.ended.catch(() => {});
    this.socket?.destroy();
    this.#server?.close();
    rmSync(this.#dir, { recursive: true, force: true });
  }
}

export function setEnvironment(socketPath: string): void {
  process.env["OPENSENTIENCE_SOCKET_PATH"] = socketPath;
  process.env["OPENSENTIENCE_SESSION_TOKEN"] = token;
  process.env["OPENSENTIENCE_AGENT_ID"] = agentID;
}

export function frame(text: string | Buffer): Buffer {
  const body = Buffer.from(text as string);
  const head = Buffer.alloc(4);
  head.writeUInt32BE(body.length);
  return Buffer.concat([head, body]);
}

export function tool(name: string, handler: Handler, more: Partial<Tool> = {}): Tool {
  return { name, description: "", handler, ...more };
}

export function checkEcho(m: Wire, id: string): void {
  assert.deepEqual([m["request_id"], m["correlation_id"], m["causation_id"]], [`r-${id}`, `c-${id}`, `d-${id}`]);
}

/** A promise and what settles it. */
export function gate(): { opened: Promise<void>; open: () => void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}

/** Waits until the count has been the same, and not 0, for a hundred turns of the event loop. */
export async function standstill(count: () => number): Promise<void> {
  for (let still = 0, last = -1; still < 100; still = count() === last && last > 0 ? still + 1 : 0) {
    last = count();
    await new Promise(setImmediate);
  }
}

/** Runs test with a node that is closed afterwards, and with stderr silenced and kept. */
export async function withNode(test: (n: FakeNode, stderr: () => string) => Promise<void>): Promise<void> {
  const said: string[] = [];
  const real = console.error;
  console.error = (...args: unknown[]) => void said.push(args.map((a) => (a instanceof Error ? a.stack : String(a))).join(" "));
  const n = new FakeNode();
  try {
    await test(n, () => said.join("\n"));
    assert.ok(!said.join("\n").includes(token), "stderr shows the token");
  } finally {
    await n.close();
    console.error = real;
  }
}
