/** Repeats the outcomes of calls with an idempotency key (OS-4.3.1.6). */

import { createHash } from "node:crypto";

import { Code, type WireError } from "./errors.js";

/** How a call ended. Times are ISO 8601. */
export interface Outcome {
  status: "succeeded" | "failed" | "canceled";
  output?: string; // JSON text
  error?: WireError;
  startedAt: string;
  finishedAt: string;
}

const maxEntries = 1024;
const maxBytes = 16 << 20;

interface Entry {
  input: string; // hash
  outcome: Promise<Outcome>;
}

/**
 * A call with a known key gets the outcome of the first call instead of running
 * again, as long as the session lives. Outcomes that a retry should change are
 * not stored: retryable failures and cancellations.
 */
export class ReplayCache {
  readonly #entries = new Map<string, Entry>(); // running and stored
  readonly #kept = new Map<string, number>(); // output characters by key, oldest first
  #held = 0;

  /**
   * Runs execute, or repeats the earlier outcome for the same tool and key.
   * Rejects with signal's reason if that aborts while another call is awaited.
   * Undefined means that the key was used with another input.
   */
  async run(tool: string, key: string, input: unknown, signal: AbortSignal, execute: () => Promise<Outcome>): Promise<Outcome | undefined> {
    const id = `${tool}\0${key}`;
    const hash = createHash("sha256").update(JSON.stringify(input)).digest("base64");
    for (let entry = this.#entries.get(id); entry; entry = this.#entries.get(id)) {
      if (entry.input !== hash) {
        return undefined;
      }
      const outcome = await abortable(entry.outcome, signal);
      if (keeps(outcome)) {
        return outcome;
      }
    }
    const outcome = execute();
    this.#entries.set(id, { input: hash, outcome });
    this.#finish(id, await outcome);
    return outcome;
  }

  #finish(id: string, outcome: Outcome): void {
    const size = outcome.output?.length ?? 0;
    if (!keeps(outcome)) {
      this.#entries.delete(id);
      return;
    }
    this.#kept.set(id, size);
    this.#held += size;
    for (const [oldest, bytes] of this.#kept) {
      if (this.#kept.size <= maxEntries && this.#held <= maxBytes) {
        return;
      }
      this.#kept.delete(oldest);
      this.#entries.delete(oldest);
      this.#held -= bytes;
    }
  }
}

function keeps(outcome: Outcome): boolean {
  const code = outcome.error?.code;
  return (
    outcome.status !== "canceled" && !outcome.error?.retryable &&
    code !== Code.canceled && (outcome.output?.length ?? 0) <= maxBytes / 4
  );
}

/** Waits for promise until signal aborts. */
function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason as Error);
    if (signal.aborted) {
      onAbort();
    }
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
