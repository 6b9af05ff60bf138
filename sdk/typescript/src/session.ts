/** One authenticated connection to the node. */

import { createConnection, type Socket } from "node:net";

import type { BoundTool } from "./call.js";
import { CallTable } from "./calls.js";
import { AgentError, safeText, type WireError } from "./errors.js";
import type { DecodeError } from "./fields.js";
import { FrameReader } from "./frame.js";
import { Outbox } from "./outbox.js";
import { decode, encode, encodeComplaint, protocolVersion, type Message } from "./wire.js";

const sdk = { name: "lightwork-agent", version: "1.0.0" };
const handshakeTimeout = 10_000; // milliseconds
/** Room in a frame besides the output, in bytes. */
const envelopeReserve = 16 << 10;
/** A longer interval would make setInterval fire at once. */
const maxInterval = 2 ** 31 - 1;

/** Configuration of a session. Sizes in bytes. */
export interface SessionConfig {
  socketPath: string;
  token: string;
  agentID: string;
  version: string;
  manifestHash: string | undefined;
  tools: Map<string, BoundTool>; // by tool id
  registration: object[];
  maxFrameBytes: number;
  maxInflight: number;
  maxOutputBytes: number; // 0: the largest that fits in a frame
  maxStreamBytes: number;
}

/** The node's goodbye. */
export interface Goodbye {
  reason: string;
  retryAfterMs: number; // 0: the node gave none
}

type State = "hello" | "register" | "serving";

/**
 * Runs one session from hello to end. Everything happens on the event loop: the
 * socket's events come in order, and so do their messages.
 */
export class Session {
  readonly #cfg: SessionConfig;
  readonly #socket: Socket;
  readonly #reader: FrameReader;
  readonly #outbox: Outbox;
  readonly #calls: CallTable;
  readonly #started = performance.now();
  #state: State = "hello";
  #sessionID = "";
  #interval = 0; // of heartbeats, milliseconds
  #beat: NodeJS.Timeout | undefined;
  #goodbye: Goodbye | undefined;
  #finish: (err?: Error) => void = () => {};

  constructor(cfg: SessionConfig) {
    this.#cfg = cfg;
    this.#socket = createConnection(cfg.socketPath);
    this.#reader = new FrameReader(cfg.maxFrameBytes);
    this.#outbox = new Outbox(this.#socket, cfg.maxFrameBytes);
    this.#calls = new CallTable(cfg.tools, cfg.maxInflight, this.#outbox);
  }

  /**
   * Serves until signal aborts (undefined), the node says goodbye, or the
   * session fails (AgentError). Running calls are aborted; their handlers get a
   * second to end.
   */
  async run(signal: AbortSignal): Promise<Goodbye | undefined> {
    const onAbort = () => this.#finish();
    signal.addEventListener("abort", onAbort);
    const patience = setTimeout(() => this.#finish(new AgentError("disconnected", "no handshake in time")), handshakeTimeout);
    try {
      await new Promise<void>((resolve, reject) => {
        this.#finish = (err) => (err ? reject(err) : resolve());
        this.#listen(patience);
        if (signal.aborted) {
          resolve();
        }
      });
      return this.#goodbye;
    } finally {
      signal.removeEventListener("abort", onAbort);
      clearTimeout(patience);
      await this.#stop();
    }
  }

  #listen(patience: NodeJS.Timeout): void {
    const lost = () => this.#finish(new AgentError("disconnected", "the node closed the connection"));
    this.#socket.on("connect", () => this.#hello());
    this.#socket.on("data", (chunk: Buffer) => {
      this.#receive(chunk);
      if (this.#state === "serving") {
        clearTimeout(patience);
      }
    });
    this.#socket.on("error", (err: NodeJS.ErrnoException) => {
      this.#finish(new AgentError("disconnected", `connection to the node: ${err.code ?? "error"}`));
    });
    this.#socket.on("end", lost);
    this.#socket.on("close", lost);
  }

  /** Ends the calls, sends their results and closes the connection. */
  async #stop(): Promise<void> {
    clearInterval(this.#beat);
    await this.#calls.stop();
    await this.#outbox.close();
  }

  #receive(chunk: Buffer): void {
    this.#reader.push(chunk);
    try {
      for (let text = this.#reader.next(); text !== undefined && !this.#goodbye; text = this.#reader.next()) {
        this.#message(text);
      }
    } catch (err) {
      // The rest of the stream is meaningless, so it is not read.
      this.#finish(err as Error);
      this.#socket.destroy();
    }
  }

  #message(text: string): void {
    let message: Message;
    try {
      message = decode(text);
    } catch (err) {
      this.#refuse(err as DecodeError);
      return;
    }
    switch (this.#state) {
      case "hello":
        this.#welcome(message);
        break;
      case "register":
        this.#registered(message);
        break;
      default:
        this.#dispatch(message);
    }
  }

  /**
   * Answers a message that cannot be handled, if the sender expects an answer
   * (OS-6.2.2, OS-6.2.3).
   */
  #refuse(refused: DecodeError): void {
    if (this.#state !== "serving") {
      throw new AgentError("protocol", `handshake: ${refused.code}: ${refused.message}`);
    }
    console.error(`message refused: ${refused.code} ${refused.field}`);
    if (refused.id && refused.echo.request_id) {
      const error = { code: refused.code, message: safeText(refused.message) };
      this.#outbox.trySend(encodeComplaint(refused.id, refused.echo, error));
    }
  }

  #hello(): void {
    const { token, agentID, version, manifestHash } = this.#cfg;
    this.#cfg.token = ""; // valid for one session only
    this.#outbox.trySend(
      encode({
        type: "agent.hello",
        payload: {
          session_token: token,
          agent_id: agentID,
          agent_version: version,
          manifest_hash: manifestHash,
          protocol: { supported_versions: [protocolVersion], capabilities: ["tools", "streaming", "cancellation"] },
          sdk,
        },
      }),
    );
  }

  #welcome(m: Message): void {
    if (m.error) {
      throw new AgentError("unauthorized", `refused by the node: ${m.error.code}: ${safeText(m.error.message ?? "")}`);
    }
    const p = m.payload;
    if (m.type !== "core.welcome") {
      throw new AgentError("protocol", `handshake: ${m.type} instead of core.welcome`);
    }
    if (p["accepted_version"] !== protocolVersion) {
      throw new AgentError("unauthorized", "the node accepts a version that was not offered");
    }
    this.#sessionID = p["session_id"] as string;
    const limit = Math.min(this.#cfg.maxFrameBytes, p["max_frame_bytes"] as number);
    this.#outbox.setLimit(limit);
    const room = Math.max(limit - envelopeReserve, Math.floor(limit / 2));
    this.#calls.limits = { output: Math.min(this.#cfg.maxOutputBytes || room, room), stream: this.#cfg.maxStreamBytes };
    this.#interval = Math.min(p["heartbeat_interval_ms"] as number, maxInterval);
    this.#state = "register";
    const fits = this.#outbox.trySend(
      encode({ type: "agent.tools.register", payload: { tools: this.#cfg.registration, replace: true } }),
    );
    if (!fits) {
      throw new AgentError("config", "the tools do not fit in a frame");
    }
  }

  #registered(m: Message): void {
    if (m.error) {
      throw new AgentError("unauthorized", `register tools: ${m.error.code}: ${safeText(m.error.message ?? "")}`);
    }
    if (m.type !== "core.tools.registered") {
      throw new AgentError("protocol", `handshake: ${m.type} instead of core.tools.registered`);
    }
    for (const r of (m.payload["rejected"] ?? []) as Array<{ tool_id?: string; error: WireError }>) {
      console.error(`tool rejected: ${safeText(r.tool_id ?? "")}: ${r.error.code} ${safeText(r.error.message ?? "")}`);
    }
    this.#state = "serving";
    this.#beat = setInterval(() => this.#heartbeat(), this.#interval);
    this.#heartbeat();
  }

  #heartbeat(): void {
    this.#outbox.trySend(
      encode({
        type: "agent.heartbeat",
        payload: {
          session_id: this.#sessionID,
          uptime_ms: Math.floor(performance.now() - this.#started),
          inflight_calls: this.#calls.size,
          status: "ok",
        },
      }),
    );
  }

  /** Handles one message. It never waits, so that the next one is read at once. */
  #dispatch(m: Message): void {
    switch (m.type) {
      case "core.tool.call":
        this.#calls.start(m);
        break;
      case "core.tool.cancel":
        this.#calls.cancel(m);
        break;
      case "core.ping":
        this.#outbox.trySend(encode({ type: "agent.pong", inReplyTo: m.id, echo: m.echo, payload: {} }));
        break;
      case "core.goodbye":
        this.#goodbye = goodbye(m);
        this.#finish();
        break;
      case "core.error":
        console.error(`the node refused a message: ${m.error?.code ?? ""}`);
    }
  }
}

function goodbye(m: Message): Goodbye {
  if (m.error) { // the payload was not checked
    return { reason: m.error.code, retryAfterMs: 0 };
  }
  const { reason, retry_after_ms } = m.payload as { reason: string; retry_after_ms?: number | null };
  return { reason: safeText(reason), retryAfterMs: retry_after_ms ?? 0 };
}
