/**
 * Agents for a Lightwork node: an agent is a process that the node starts, and
 * that offers tools over the OpenSentience runtime protocol.
 *
 *     const agent = new Agent({ version: "1.0.0" });
 *     agent.tool({
 *       name: "greet",
 *       description: "Greets by name.",
 *       inputSchema: { type: "object", properties: { name: { type: "string" } } },
 *       handler: async (call) => ({ greeting: `Hello, ${call.input.name}!` }),
 *     });
 *     await agent.run();
 */

import type { BoundTool, Handler } from "./call.js";
import { AgentError, safeText } from "./errors.js";
import { defaultMaxBytes } from "./frame.js";
import { compileSchema } from "./schema.js";
import { Session, type Goodbye } from "./session.js";
import { validAgentID, validToolName, validVersion } from "./wire.js";

export { Call, CallCanceled, CallTimedOut, type Channel, type Handler } from "./call.js";
export { AgentError, ToolError, type AgentErrorCode } from "./errors.js";
export type { Goodbye } from "./session.js";
export type { Actor } from "./wire.js";

/** Environment variables that the node sets for an agent. */
export const envSocketPath = "OPENSENTIENCE_SOCKET_PATH";
export const envToken = "OPENSENTIENCE_SESSION_TOKEN";
export const envAgentID = "OPENSENTIENCE_AGENT_ID";

const defaultMaxInflight = 256;
const defaultMaxStreamBytes = 16 << 20;

/** Describes an agent. Sizes in bytes. */
export interface AgentConfig {
  /** Semantic version, as in the manifest. */
  version: string;
  /**
   * Lower-case hex SHA-256 of the approved manifest, which lets the node detect
   * changes.
   */
  manifestHash?: string;
  /** Largest frame read or written; default 4 MiB. */
  maxFrameBytes?: number;
  /** Concurrent calls; default 256. Further calls are refused with "tool.overloaded". */
  maxInflight?: number;
  /** Result of one call; default: the largest that fits in a frame. */
  maxOutputBytes?: number;
  /** Streamed data of one call; default 16 MiB. */
  maxStreamBytes?: number;
}

/** One offered tool. */
export interface Tool {
  /** Without the agent's id. */
  name: string;
  description: string;
  /** JSON Schema 2020-12; default: any object. */
  inputSchema?: object;
  outputSchema?: object;
  /** Default: streaming, cancellation. */
  capabilities?: string[];
  sideEffects?: boolean;
  requiresDirective?: boolean;
  tags?: string[];
  /** Time limit of one call in milliseconds; default: the caller's. */
  timeoutMs?: number;
  handler: Handler;
}

/** An agent with its tools. */
export class Agent {
  readonly #cfg: AgentConfig;
  readonly #env: Environment;
  readonly #tools = new Map<string, Tool>(); // by name
  readonly #checks = new Map<string, BoundTool>(); // by name

  /** Reads the environment set by the node. Throws an AgentError "config". */
  constructor(cfg: AgentConfig) {
    this.#env = takeEnvironment();
    if (!validVersion(cfg.version)) {
      throw new AgentError("config", "version must be a semantic version");
    }
    for (const name of ["maxFrameBytes", "maxInflight", "maxOutputBytes", "maxStreamBytes"] as const) {
      const value = cfg[name];
      if (value !== undefined && (!Number.isSafeInteger(value) || value <= 0)) {
        throw new AgentError("config", `${name} must be a positive integer`);
      }
    }
    this.#cfg = { ...cfg };
  }

  /** Adds a tool. Throws an AgentError "config". */
  tool(tool: Tool): void {
    if (!validToolName(tool.name) || typeof tool.handler !== "function" || this.#tools.has(tool.name)) {
      throw new AgentError("config", `tool ${JSON.stringify(tool.name)} needs a handler and a name of its own`);
    }
    const timeoutMs = tool.timeoutMs ?? 0;
    if (!Number.isSafeInteger(timeoutMs) || timeoutMs < 0 || timeoutMs > 86_400_000) {
      throw new AgentError("config", `tool ${tool.name}: timeoutMs must be at most a day`);
    }
    let check;
    try {
      check = compileSchema(tool.inputSchema ?? { type: "object" });
    } catch (err) {
      throw new AgentError("config", `input schema of ${tool.name}: ${(err as Error).message}`);
    }
    this.#tools.set(tool.name, { ...tool });
    this.#checks.set(tool.name, { name: tool.name, timeoutMs, check, handler: tool.handler });
  }

  /**
   * Serves as the main function of a program: an error is printed as one line
   * on stderr and gives exit status 1.
   */
  async run(): Promise<void> {
    try {
      await this.serve();
    } catch (e) {
      if (!(e instanceof AgentError)) {
        throw e;
      }
      console.error(`lightwork agent: ${safeText(e.message)}`);
      process.exit(1);
    }
  }

  /**
   * Connects and serves until the node says goodbye, with which it resolves, or
   * until signal aborts (without a signal, until SIGTERM or SIGINT). Rejects
   * with an AgentError. Running calls are aborted at the end. There is no
   * reconnecting: a session token is valid for one session, and the node starts
   * a new process for the next.
   */
  async serve(signal?: AbortSignal): Promise<Goodbye | undefined> {
    const session = this.#connect();
    if (signal) {
      return session.run(signal);
    }
    const stop = new AbortController();
    const onSignal = () => stop.abort();
    process.on("SIGTERM", onSignal).on("SIGINT", onSignal);
    try {
      return await session.run(stop.signal);
    } finally {
      process.off("SIGTERM", onSignal).off("SIGINT", onSignal);
    }
  }

  #connect(): Session {
    const { socketPath, token, agentID } = checked(this.#env);
    this.#env.token = undefined;
    const cfg = this.#cfg;
    return new Session({
      socketPath, token, agentID,
      version: cfg.version,
      manifestHash: cfg.manifestHash,
      tools: new Map([...this.#checks].map(([name, tool]) => [`${agentID}/${name}`, tool])),
      registration: [...this.#tools.values()].map((tool) => registration(agentID, tool)),
      maxFrameBytes: cfg.maxFrameBytes ?? defaultMaxBytes,
      maxInflight: cfg.maxInflight ?? defaultMaxInflight,
      maxOutputBytes: cfg.maxOutputBytes ?? 0,
      maxStreamBytes: cfg.maxStreamBytes ?? defaultMaxStreamBytes,
    });
  }
}

interface Environment {
  socketPath: string | undefined;
  token: string | undefined;
  agentID: string | undefined;
}

/**
 * Reads the environment. It removes the token at once, so that no child process
 * and no dump contains it.
 */
function takeEnvironment(): Environment {
  const { [envSocketPath]: socketPath, [envToken]: token, [envAgentID]: agentID } = process.env;
  delete process.env[envToken];
  return { socketPath, token, agentID };
}

function checked(env: Environment): { socketPath: string; token: string; agentID: string } {
  const { socketPath, token, agentID } = env;
  if (!socketPath) {
    throw new AgentError("config", `no socket path: the node sets ${envSocketPath}`);
  }
  if (!token) {
    throw new AgentError("config", `no session token: the node sets ${envToken}`);
  }
  if (!validAgentID(agentID)) {
    throw new AgentError("config", `missing or malformed agent id: the node sets ${envAgentID}`);
  }
  return { socketPath, token, agentID };
}

/**
 * A tool in the form of agent.tools.register (OS-4.2.1); undefined members are
 * left out.
 */
function registration(agentID: string, tool: Tool): object {
  return {
    tool_id: `${agentID}/${tool.name}`,
    name: tool.name,
    description: tool.description,
    input_schema: tool.inputSchema ?? { type: "object" },
    output_schema: tool.outputSchema,
    capabilities: tool.capabilities ?? ["streaming", "cancellation"],
    side_effects: tool.sideEffects,
    requires_directive: tool.requiresDirective,
    tags: tool.tags,
  };
}
