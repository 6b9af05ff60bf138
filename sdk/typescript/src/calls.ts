/** The calls of one session. */

import { CallRun, type BoundTool, type CallLimits } from "./call.js";
import { Code, type WireError } from "./errors.js";
import type { Outbox } from "./outbox.js";
import { ReplayCache, type Outcome } from "./replay.js";
import { encode, encodeComplaint, type Message } from "./wire.js";

/** How long stop waits for handlers to end after their cancellation, in milliseconds. */
const stopGrace = 1000;

/** Starts and cancels calls, and sees each to its single result. */
export class CallTable {
  limits: CallLimits = { output: 0, stream: 0 }; // set by the welcome message

  readonly #tools: Map<string, BoundTool>; // by tool id
  readonly #maxInflight: number;
  readonly #outbox: Outbox;
  readonly #replays = new ReplayCache();
  readonly #runs = new Map<string, CallRun>(); // by call id, until the result is queued
  readonly #handlers = new Set<Promise<void>>();
  #stopping = false;

  constructor(tools: Map<string, BoundTool>, maxInflight: number, outbox: Outbox) {
    this.#tools = tools;
    this.#maxInflight = maxInflight;
    this.#outbox = outbox;
  }

  get size(): number {
    return this.#runs.size;
  }

  /** Starts a call or refuses it. */
  start(m: Message): void {
    if (m.error) {
      return; // an error needs no answer, and its payload was not checked
    }
    const id = m.payload["call_id"] as string;
    if (this.#runs.has(id)) {
      // A result would end the running call with this id.
      const error = { code: Code.duplicateCall, message: "a call with this id is running" };
      this.#outbox.trySend(encodeComplaint(m.id, m.echo, error));
      return;
    }
    if (this.#runs.size >= this.#maxInflight || this.#stopping) {
      this.#turnAway(m, { code: Code.overloaded, message: "too many calls in flight", retryable: true });
      return;
    }
    const tool = this.#tools.get(m.payload["tool_id"] as string);
    if (!tool) {
      this.#turnAway(m, { code: Code.unavailable, message: "no such tool" });
      return;
    }
    const run = new CallRun(m, tool, this.#outbox, this.limits);
    this.#runs.set(id, run);
    const handler = this.#run(run).finally(() => this.#handlers.delete(handler));
    this.#handlers.add(handler);
  }

  cancel(m: Message): void {
    if (m.error) {
      return;
    }
    const id = m.payload["call_id"] as string;
    const run = this.#runs.get(id);
    this.#outbox.trySend(
      encode({
        type: "agent.tool.cancel_ack",
        inReplyTo: m.id,
        echo: run?.message.echo ?? m.echo,
        payload: { call_id: id, accepted: run !== undefined },
      }),
    );
    run?.cancel();
  }

  /** Cancels all calls and waits a second for their handlers. */
  async stop(): Promise<void> {
    this.#stopping = true;
    for (const run of this.#runs.values()) {
      run.cancel();
    }
    let timer: NodeJS.Timeout | undefined;
    const grace = new Promise<void>((resolve) => (timer = setTimeout(resolve, stopGrace)));
    await Promise.race([Promise.all(this.#handlers), grace]);
    clearTimeout(timer);
  }

  #turnAway(m: Message, error: WireError): void {
    const now = new Date().toISOString();
    const outcome: Outcome = { status: "failed", error: { ...error, where: "agent.runtime" }, startedAt: now, finishedAt: now };
    this.#outbox.trySend(encodeResult(m, outcome));
  }

  /** Runs a call to its single result (OS-4.3.3.8). Never rejects. */
  async #run(run: CallRun): Promise<void> {
    const outcome = await this.#outcome(run);
    run.end();
    try {
      if (!(await this.#outbox.send(encodeResult(run.message, outcome)))) {
        await this.#outbox.send(encodeResult(run.message, run.tooLarge()));
      }
    } catch {
      // The connection has ended, and with it the call.
    }
    // Only now, so that a node that does not read cannot accumulate waiting results.
    this.#runs.delete(run.call.id);
  }

  async #outcome(run: CallRun): Promise<Outcome> {
    const { tool, idempotencyKey, input, signal } = run.call;
    if (idempotencyKey === undefined) {
      return run.execute();
    }
    try {
      const outcome = await this.#replays.run(tool, idempotencyKey, input, signal, () => run.execute());
      return outcome ?? run.failed({ code: Code.invalidInput, message: "idempotency_key was used with another input" });
    } catch (err) {
      return run.failure(err);
    }
  }
}

/** Writes the result of the call requested by m. */
function encodeResult(m: Message, o: Outcome): string {
  const payload = {
    call_id: m.payload["call_id"],
    status: o.status,
    error: o.error,
    started_at: o.startedAt,
    finished_at: o.finishedAt,
  };
  const output = o.output === undefined ? undefined : { name: "output", text: o.output };
  return encode({ type: "agent.tool.result", inReplyTo: m.id, echo: m.echo, payload }, output);
}
