/** Strict decoding of one object of a message. */

import { Code } from "./errors.js";
import { isObject, type JSONObject } from "./json.js";

export const maxIDBytes = 256;

/** The fields that every message about a request repeats (OS-3.1.7). */
export interface Echo {
  request_id?: string;
  correlation_id?: string;
  causation_id?: string;
}

/** Why a message was refused. Id and echo are the fields that could be read. */
export class DecodeError extends Error {
  id: string | undefined;
  echo: Echo = {};

  constructor(
    readonly code: string,
    readonly field: string,
    reason: string, // quotes nothing of the message
  ) {
    super(field === "" ? reason : `${field}: ${reason}`);
  }
}

/**
 * An object whose fields are checked by name. A null field counts as absent,
 * because many languages write absent fields as null.
 */
export class Fields {
  constructor(
    readonly all: JSONObject,
    private readonly path: string, // "" or with a trailing dot
  ) {}

  fail(name: string, reason: string): never {
    throw new DecodeError(Code.invalidMessage, this.path + name, reason);
  }

  private get(name: string): unknown {
    return Object.hasOwn(this.all, name) ? (this.all[name] ?? undefined) : undefined;
  }

  present(name: string): void {
    if (this.get(name) === undefined) {
      this.fail(name, "required");
    }
  }

  text(name: string, maxBytes: number): string | undefined {
    const value = this.get(name);
    if (value === undefined) {
      return undefined;
    }
    if (typeof value !== "string") {
      return this.fail(name, "must be a string");
    }
    return Buffer.byteLength(value) <= maxBytes ? value : this.fail(name, "too long");
  }

  id(name: string, maxBytes = maxIDBytes): string {
    return this.text(name, maxBytes) || this.fail(name, "required");
  }

  optionalID(name: string): string | undefined {
    return this.text(name, maxIDBytes) || undefined;
  }

  oneOf(name: string, allowed: string[]): void {
    if (!allowed.includes(this.text(name, Infinity) ?? "")) {
      this.fail(name, "not one of the allowed values");
    }
  }

  integer(name: string): number | undefined {
    const value = this.get(name);
    if (value !== undefined && !Number.isSafeInteger(value)) {
      this.fail(name, "must be an integer");
    }
    return value as number | undefined;
  }

  count(name: string): void {
    if ((this.integer(name) ?? 0) < 0) {
      this.fail(name, "must not be negative");
    }
  }

  positive(name: string): void {
    if ((this.integer(name) ?? 0) <= 0) {
      this.fail(name, "must be positive");
    }
  }

  boolean(name: string): void {
    const value = this.get(name);
    if (value !== undefined && typeof value !== "boolean") {
      this.fail(name, "must be a boolean");
    }
  }

  object(name: string): Fields | undefined {
    const value = this.get(name);
    if (value === undefined) {
      return undefined;
    }
    return isObject(value) ? new Fields(value, `${this.path}${name}.`) : this.fail(name, "must be an object");
  }

  objects(name: string): Fields[] {
    return this.list(name).map((item) =>
      isObject(item) ? new Fields(item, `${this.path}${name}.`) : this.fail(name, "must hold objects"),
    );
  }

  strings(name: string): void {
    if (!this.list(name).every((item) => typeof item === "string")) {
      this.fail(name, "must hold strings");
    }
  }

  private list(name: string): unknown[] {
    const value = this.get(name) ?? [];
    return Array.isArray(value) ? value : this.fail(name, "must be an array");
  }
}
