/** One call: the handler's view of it, and its run to the single outcome. */

import { AgentError, Code, cutBytes, safeText, ToolError, validCode, type WireError } from "./errors.js";
import { isObject, stringify, type JSONObject } from "./json.js";
import type { Outbox } from "./outbox.js";
import type { Outcome } from "./replay.js";
import type { Check } from "./schema.js";
import { encode, type Actor, type Message } from "./wire.js";

/** Kinds of text chunks. */
export type Channel = "stdout" | "stderr" | "log" | "status";

const channels: readonly string[] = ["stdout", "stderr", "log", "status"];
const maxChunkBytes = 64 << 10; // text of one chunk
const chunkOverhead = 16; // added for each chunk
const maxTimeout = 24 * 60 * 60 * 1000;

/** Handles a call. It must return an object; nothing means {}. */
export type Handler = (call: Call) => Promise<object | void> | object | void;

/** A tool that is ready for calls. */
export interface BoundTool {
  name: string;
  timeoutMs: number; // 0: none
  check: Check;
  handler: Handler;
}

/** Limits of every call, in bytes. */
export interface CallLimits {
  output: number;
  stream: number;
}

/** The reasons that abort a call's signal. */
export class CallCanceled extends Error {
  override readonly name = "CallCanceled";
}
export class CallTimedOut extends Error {
  override readonly name = "CallTimedOut";
}

/** One call as seen by its handler. */
export class Call {
  readonly id: string;
  readonly tool: string; // name without the agent's id
  readonly input: Record<string, any>; // already checked against the tool's schema
  readonly requestId: string | undefined;
  readonly correlationId: string | undefined;
  readonly causationId: string | undefined;
  readonly idempotencyKey: string | undefined;
  readonly timeoutMs: number; // the stricter of the caller's and the tool's; 0: none
  readonly actor: Actor | undefined; // metadata, never authority
  readonly context: JSONObject | undefined; // project_root, resource_paths, ui
  /** Aborts when the call is canceled, takes too long, or the session ends. */
  readonly signal: AbortSignal;

  readonly #run: CallRun;

  /** @internal */
  constructor(run: CallRun, message: Message, tool: string, signal: AbortSignal, timeoutMs: number) {
    const p = message.payload;
    this.id = p["call_id"] as string;
    this.tool = tool;
    this.input = p["input"] as JSONObject;
    this.requestId = message.echo.request_id;
    this.correlationId = message.echo.correlation_id;
    this.causationId = message.echo.causation_id;
    this.idempotencyKey = (p["idempotency_key"] as string | null | undefined) || undefined;
    this.timeoutMs = timeoutMs;
    this.actor = message.actor;
    this.context = (p["context"] as JSONObject | null | undefined) ?? undefined;
    this.signal = signal;
    this.#run = run;
  }

  /**
   * Sends text, in several chunks if it is long. Await it: it waits while the
   * node does not read. Rejects with an AgentError "stream_limit" or
   * "stream_ended", or with the signal's reason.
   */
  stream(channel: Channel, text: string): Promise<void> {
    return handled(this.#run.streamText(channel, text));
  }

  /** Sends an object as a partial result. Rejects like stream. */
  partial(value: object): Promise<void> {
    return handled(this.#run.streamPartial(value));
  }

  /** Announces that no more chunks follow; the result is still sent. */
  done(): Promise<void> {
    return handled(this.#run.streamDone());
  }
}

/** A rejection that a handler does not await must not end the agent. */
function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}

/** The session's side of a Call. */
export class CallRun {
  readonly call: Call;
  readonly message: Message;
  readonly #tool: BoundTool;
  readonly #outbox: Outbox;
  readonly #limits: CallLimits;
  readonly #abort = new AbortController();
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #startedAt = new Date().toISOString();
  #seq = 0;
  #streamed = 0; // bytes
  #ended = false; // no more chunks

  constructor(message: Message, tool: BoundTool, outbox: Outbox, limits: CallLimits) {
    this.message = message;
    this.#tool = tool;
    this.#outbox = outbox;
    this.#limits = limits;
    const asked = Math.min((message.payload["timeout_ms"] as number | null | undefined) ?? 0, maxTimeout);
    const limit = Math.min(asked || Infinity, tool.timeoutMs || Infinity);
    const timeoutMs = limit === Infinity ? 0 : limit;
    this.call = new Call(this, message, tool.name, this.#abort.signal, timeoutMs);
    if (timeoutMs > 0) {
      this.#timer = setTimeout(() => this.#abort.abort(new CallTimedOut("the call took too long")), timeoutMs);
    }
  }

  cancel(): void {
    this.#abort.abort(new CallCanceled("the call was canceled"));
  }

  /** Prevents further chunks and the timeout. */
  end(): void {
    this.#ended = true;
    clearTimeout(this.#timer);
  }

  /** Validates the input, runs the handler and shapes its result. Never rejects. */
  async execute(): Promise<Outcome> {
    try {
      const wrong = this.#tool.check(this.call.input);
      if (wrong !== undefined) {
        return this.failed({ code: Code.invalidInput, message: wrong });
      }
      const value = await this.#tool.handler(this.call);
      return this.#succeeded(stringify(value ?? {}));
    } catch (err) {
      return this.failure(err);
    }
  }

  #succeeded(output: string | undefined): Outcome {
    if (output === undefined || !output.startsWith("{")) {
      return this.failed({ code: Code.invalidOutput, message: "the tool's output is not an object" });
    }
    if (Buffer.byteLength(output) > this.#limits.output) {
      return this.tooLarge();
    }
    return { status: "succeeded", output, startedAt: this.#startedAt, finishedAt: new Date().toISOString() };
  }

  tooLarge(): Outcome {
    return this.failed({ code: Code.outputTooLarge, message: `the output is larger than ${this.#limits.output} bytes` });
  }

  failed(error: WireError): Outcome {
    const now = new Date().toISOString();
    return { status: "failed", error: { where: "agent.runtime", ...error }, startedAt: this.#startedAt, finishedAt: now };
  }

  /**
   * Says why the handler failed. An abort takes precedence over the error that
   * it caused in the handler. The text of an unknown error goes only to stderr.
   */
  failure(err: unknown): Outcome {
    const { aborted, reason } = this.call.signal;
    if (aborted && reason instanceof CallTimedOut) {
      return this.failed({ code: Code.timeout, message: "the call took too long", retryable: true });
    }
    if (aborted) {
      return { ...this.failed({ code: Code.canceled, message: "the call was canceled" }), status: "canceled" };
    }
    if (err instanceof ToolError) {
      return this.failed(shown(err));
    }
    console.error(`tool ${this.call.tool}, call ${JSON.stringify(this.call.id)}:`, err);
    // An unexpected error, and not a failure that the handler reports.
    if (!(err instanceof Error) || err instanceof RangeError || err instanceof ReferenceError) {
      return this.failed({ code: Code.internal, message: "the tool broke" });
    }
    return this.failed({ code: Code.failed, message: "the tool failed" });
  }

  async streamText(channel: Channel, text: string): Promise<void> {
    if (!channels.includes(channel)) {
      throw new TypeError(`no text channel ${channel}`);
    }
    let rest = String(text).toWellFormed();
    do {
      const part = cutBytes(rest, maxChunkBytes);
      rest = rest.slice(part.length);
      await this.#chunk(Buffer.byteLength(part), { channel, data: { text: part } });
    } while (rest !== "");
  }

  async streamPartial(value: object): Promise<void> {
    const text = isObject(value) ? stringify(value) : undefined;
    if (!text?.startsWith("{")) {
      throw new TypeError("a partial result must be an object");
    }
    await this.#chunk(Buffer.byteLength(text), { channel: "partial_result", data: { json: JSON.parse(text) as object } });
  }

  async streamDone(): Promise<void> {
    await this.#chunk(0, { channel: "status", data: { text: "" }, done: true });
  }

  async #chunk(size: number, chunk: { channel: string; data: object; done?: true }): Promise<void> {
    if (this.#ended) {
      throw new AgentError("stream_ended", "a chunk came after done() or after the handler returned");
    }
    // Small chunks count as larger than they are, which bounds their number too. The
    // end may always be sent.
    const total = this.#streamed + size + chunkOverhead;
    if (total > this.#limits.stream && !chunk.done) {
      throw new AgentError("stream_limit", `a call may stream ${this.#limits.stream} bytes`);
    }
    this.#streamed = total;
    this.#ended = chunk.done ?? false;
    const text = encode({
      type: "agent.tool.stream",
      echo: this.message.echo,
      payload: { call_id: this.call.id, seq: ++this.#seq, ...chunk },
    });
    if (!(await this.#outbox.send(text, this.call.signal))) {
      throw new AgentError("stream_limit", "the chunk does not fit in a frame");
    }
  }
}

/** The wire form of a ToolError. */
function shown(err: ToolError): WireError {
  const shown: WireError = {
    code: validCode(err.code) ? err.code : Code.failed,
    message: safeText(String(err.message)),
  };
  if (err.retryable) {
    shown.retryable = true;
  }
  try {
    const details = isObject(err.details) ? stringify(err.details) : undefined;
    if (details?.startsWith("{")) {
      shown.details = JSON.parse(details) as JSONObject;
    }
  } catch {
    // Leave out details without a JSON form: the error itself is more important.
  }
  return shown;
}
