import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Pins } from "../src/evidence.js";
import { utf8 } from "../src/hex.js";

/** A file of receipts/testdata/vectors, with the files of its base. */
export interface Vector {
  name: string;
  about: string;
  files: Map<string, Uint8Array>;
  pins: Pins;
  exitCode: number;
  notProved: Record<string, string>;
  /** words that the reason of a claim has in it, whoever verifies */
  because: Record<string, string>;
}

interface VectorFile {
  about: string;
  base?: string;
  files?: Record<string, string>;
  remove?: string[];
  pins: Pins;
  exit_code: number;
  not_proved: Record<string, string>;
  because?: Record<string, string>;
}

/** Relative to dist/fuzz in a checkout; the environment may override it. */
const dir = process.env["LIGHTWORK_VECTORS"] ?? join(import.meta.dirname, "../../../../receipts/testdata/vectors");

export function readVectors(): Vector[] {
  return readdirSync(dir).filter((n) => n.endsWith(".json")).sort().map((n) => readVector(n.slice(0, -".json".length)));
}

export function readVector(name: string): Vector {
  const v = JSON.parse(readFileSync(join(dir, `${name}.json`), "utf8")) as VectorFile;
  const files = v.base === undefined ? new Map<string, Uint8Array>() : readVector(v.base).files;
  for (const gone of v.remove ?? []) files.delete(gone);
  for (const [path, text] of Object.entries(v.files ?? {})) files.set(path, utf8(text));
  return { name, about: v.about, files, pins: v.pins, exitCode: v.exit_code, notProved: v.not_proved, because: v.because ?? {} };
}
