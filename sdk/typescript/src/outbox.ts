/** Writes frames to one connection. */

import type { Socket } from "node:net";

import { AgentError } from "./errors.js";
import { encodeFrame } from "./frame.js";

/** Queued bytes above which callers of send must wait. */
const queueBytes = 8 << 20;
/** Bound of the bytes queued with trySend; above it the node counts as not reading. */
const urgentBytes = 64 << 20;
/** Added for each frame, which bounds the number of small frames too. */
const frameOverhead = 256;
/** A node that reads nothing for this long counts as disconnected, in milliseconds. */
const writeTimeout = 10_000;

interface Waiter {
  frame: Buffer;
  resolve: () => void;
  reject: (err: Error) => void;
}

/**
 * Two queues: one for callers that wait for room (send) and one for those that
 * must not wait (trySend). Each keeps its order; the second goes first, so that
 * a long stream delays no heartbeat.
 */
export class Outbox {
  readonly #socket: Socket;
  #limit: number;
  #urgent: Buffer[] = [];
  #queue: Buffer[] = [];
  #waiters: Waiter[] = []; // for room in #queue
  #urgentHeld = 0; // bytes in #urgent
  #queueHeld = 0; // bytes in #queue
  #blocked = false; // the socket has not accepted all of the last frame
  #closed = false;

  constructor(socket: Socket, limit: number) {
    this.#socket = socket;
    this.#limit = limit;
    socket.on("drain", () => {
      this.#blocked = false;
      this.#pump();
    });
    // Node restarts this timer whenever bytes are sent or received.
    socket.setTimeout(writeTimeout, () => {
      if (this.#blocked) {
        socket.destroy();
      }
    });
    socket.on("close", () => this.#abandon());
  }

  setLimit(limit: number): void {
    this.#limit = limit;
  }

  /**
   * Queues a message. False: it does not fit in a frame. A node that does not
   * read is disconnected.
   */
  trySend(text: string): boolean {
    const frame = encodeFrame(text, this.#limit);
    if (!frame || this.#closed) {
      return frame !== undefined;
    }
    this.#urgentHeld += cost(frame);
    if (this.#urgentHeld > urgentBytes) {
      this.#socket.destroy();
      return true;
    }
    this.#urgent.push(frame);
    this.#pump();
    return true;
  }

  /**
   * Queues a message, waiting for room until signal aborts or the connection
   * ends; both reject. False: it does not fit in a frame.
   */
  async send(text: string, signal?: AbortSignal): Promise<boolean> {
    const frame = encodeFrame(text, this.#limit);
    if (!frame) {
      return false;
    }
    signal?.throwIfAborted();
    if (this.#closed) {
      throw closedError();
    }
    if (this.#waiters.length > 0 || this.#full(frame)) {
      await this.#room(frame, signal);
    } else {
      this.#enqueue(frame);
    }
    this.#pump();
    return true;
  }

  #full(frame: Buffer): boolean {
    return this.#queueHeld > 0 && this.#queueHeld + cost(frame) > queueBytes;
  }

  #enqueue(frame: Buffer): void {
    this.#queue.push(frame);
    this.#queueHeld += cost(frame);
  }

  /** Waits until the frame is queued. Waiters are served in order. */
  #room(frame: Buffer, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        frame,
        resolve: () => {
          signal?.removeEventListener("abort", onAbort);
          resolve();
        },
        reject,
      };
      const onAbort = () => {
        this.#waiters = this.#waiters.filter((w) => w !== waiter);
        reject(signal?.reason as Error);
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#waiters.push(waiter);
    });
  }

  #pump(): void {
    while (!this.#blocked && !this.#closed) {
      const frame = this.#next();
      if (!frame) {
        return;
      }
      this.#blocked = !this.#socket.write(frame);
    }
  }

  #next(): Buffer | undefined {
    const urgent = this.#urgent.shift();
    if (urgent) {
      this.#urgentHeld -= cost(urgent);
      return urgent;
    }
    const frame = this.#queue.shift();
    if (frame) {
      this.#queueHeld -= cost(frame);
      this.#admit();
    }
    return frame;
  }

  /** Moves waiting frames into the queue as far as there is room. */
  #admit(): void {
    for (let w = this.#waiters[0]; w && !this.#full(w.frame); w = this.#waiters[0]) {
      this.#waiters.shift();
      this.#enqueue(w.frame);
      w.resolve();
    }
  }

  /** Writes the queued frames and ends the connection; resolves when it is closed. */
  async close(): Promise<void> {
    if (this.#socket.closed) {
      return;
    }
    if (this.#socket.connecting) {
      this.#socket.destroy();
    }
    const closed = new Promise<void>((resolve) => this.#socket.once("close", () => resolve()));
    this.#admitAll();
    while (!this.#socket.destroyed) {
      const frame = this.#next();
      if (!frame) {
        break;
      }
      this.#socket.write(frame);
    }
    this.#closed = true;
    this.#blocked = true; // so that the write timeout applies
    this.#socket.end(() => this.#socket.destroy());
    await closed;
  }

  #admitAll(): void {
    for (const w of this.#waiters.splice(0)) {
      this.#enqueue(w.frame);
      w.resolve();
    }
  }

  #abandon(): void {
    this.#closed = true;
    this.#urgent = [];
    this.#queue = [];
    for (const w of this.#waiters.splice(0)) {
      w.reject(closedError());
    }
  }
}

function cost(frame: Buffer): number {
  return frame.length + frameOverhead;
}

function closedError(): AgentError {
  return new AgentError("disconnected", "the connection is closed");
}
