/**
 * Shared by the job types: the form of their rules, and access to values that
 * are valid under a schema.
 */
import type { ObjectValue, Value } from "./json.js";
import { SchemaError } from "./schema.js";

/**
 * The requirements of a job type beyond its JSON Schemas; a violation throws a
 * SchemaError.
 */
export interface Rules {
  request(request: ObjectValue): void;
  result(result: ObjectValue): void;
  answer(request: ObjectValue, result: ObjectValue): void;
  /** With stdout, the standard output of commands counts too. */
  agreement(result: ObjectValue, stdout: boolean): Value | undefined;
}

// Typed access; the schema guarantees the types.
export function object(of: ObjectValue, name: string): ObjectValue {
  const value = of.get(name);
  return value instanceof Map ? value : new Map();
}

export function list(of: ObjectValue, name: string): ObjectValue[] {
  return (of.get(name) ?? []) as ObjectValue[];
}

export function values(of: ObjectValue, name: string): Value[] {
  return (of.get(name) ?? []) as Value[];
}

export function text(of: ObjectValue, name: string): string {
  return (of.get(name) ?? "") as string;
}

export function count(of: ObjectValue, name: string): number {
  return (of.get(name) ?? 0) as number;
}

export function demand(ok: boolean, path: string, reason: string): void {
  if (!ok) throw new SchemaError(path, reason);
}
