/**
 * The reference agent: five small tools that show the features of the runtime
 * protocol and serve the tests of the runtime.
 */

import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

import { Agent, ToolError, type Call } from "../src/lightwork-agent.js";

/** Returns an object schema that allows only the given properties. */
function schema(properties: object, ...required: string[]): object {
  return { type: "object", properties, required, additionalProperties: false };
}

async function pause(call: Call, ms: number): Promise<void> {
  call.signal.throwIfAborted();
  if (ms > 0) {
    await sleep(ms, undefined, { signal: call.signal });
  }
}

async function streamCounter(call: Call): Promise<object> {
  const { count, interval_ms = 0 } = call.input as { count: number; interval_ms?: number };
  for (let i = 1; i <= count; i++) {
    await call.stream("stdout", `${i}\n`);
    await pause(call, interval_ms);
  }
  await call.done();
  return { count };
}

async function largeOutput(call: Call): Promise<object> {
  const { bytes, as_file = false } = call.input as { bytes: number; as_file?: boolean };
  const text = "x".repeat(bytes);
  if (!as_file) {
    return { text };
  }
  const path = `./output-${randomUUID()}.txt`;
  await writeFile(path, text, { flag: "wx", mode: 0o600 });
  return { path, bytes };
}

const agent = new Agent({ version: "1.0.0" });
const tags = ["reference"];

agent.tool({
  name: "hello_world",
  description: "Greets by name.",
  inputSchema: schema({ name: { type: "string", minLength: 1, maxLength: 200 } }),
  outputSchema: schema({ greeting: { type: "string" } }, "greeting"),
  tags,
  handler: (call) => ({ greeting: `Hello, ${call.input["name"] ?? "world"}!` }),
});

agent.tool({
  name: "stream_counter",
  description: "Streams the numbers from 1 to count, then returns count.",
  inputSchema: schema(
    {
      count: { type: "integer", minimum: 0, maximum: 100_000 },
      interval_ms: { type: "integer", minimum: 0, maximum: 60_000 },
    },
    "count",
  ),
  outputSchema: schema({ count: { type: "integer" } }, "count"),
  tags,
  handler: streamCounter,
});

agent.tool({
  name: "sleep",
  description: "Sleeps for ms milliseconds, or until it is canceled.",
  inputSchema: schema({ ms: { type: "integer", minimum: 0, maximum: 3_600_000 } }, "ms"),
  outputSchema: schema({ slept_ms: { type: "integer" } }, "slept_ms"),
  tags,
  handler: async (call) => {
    await pause(call, call.input["ms"] as number);
    return { slept_ms: call.input["ms"] };
  },
});

agent.tool({
  name: "invalid_input",
  description: "Finds every input invalid.",
  tags,
  handler: () => {
    throw new ToolError("tool.invalid_input", "this tool accepts no input");
  },
});

agent.tool({
  name: "large_output",
  description:
    "Returns a text of bytes bytes; with as_file it writes the text to a file in the agent's " +
    "working directory and returns its path.",
  inputSchema: schema({ bytes: { type: "integer", minimum: 0, maximum: 64 << 20 }, as_file: { type: "boolean" } }, "bytes"),
  sideEffects: true,
  tags,
  handler: largeOutput,
});

await agent.run();
