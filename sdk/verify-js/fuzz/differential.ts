/**
 * Holds this verifier against lightwork-verify on changed bundles.
 * usage: node dist/fuzz/differential.js --go PATH [--n COUNT] [--from SEED] [--seeds FILE] [--keep DIR]
 * One seed makes one bundle. Exit status 1 if the two disagree anywhere.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { claimNames, readTar, UnusableError, verify, type Pins } from "../src/index.js";
import { forge, pins as forgedPins } from "./forge.js";
import { jobs } from "./jobs.js";
import { Random } from "./random.js";
import { mutateBundle } from "./surface.js";
import { writeTar } from "./tar.js";
import { readVectors, type Vector } from "./vectors.js";

interface Case {
  from: string;
  archive: Uint8Array;
  pins: Pins;
}

/** The claim states in the order of the claims, or that the bundle is unusable. */
type Outcome = { exit: number; states: Record<string, string>; reasons: Record<string, string> };

interface ClaimOutcome {
  name: string;
  state: string;
  reason: string;
}

const vectors = readVectors();
const scratch = mkdtempSync(join(tmpdir(), "verify-differential-"));
const keysFile = join(scratch, "keys.jsonl");
/**
 * The documents that a forger can remake. In a chained request the job is in
 * another event.
 */
const valid = vectors.filter((v) => v.exitCode === 0 && !v.files.has("INPUTS.jsonl"));

function makeCase(seed: number): Case {
  const random = new Random(seed);
  if (random.below(3) === 0) return surfaceCase(random);
  const base = random.pick(valid);
  const job = random.below(3) === 0 ? random.pick(jobs) : undefined;
  const forged = forge(base.files, random, job);
  const files = random.below(6) === 0 ? mutateBundle(forged, vectors.map((v) => v.files), random) : forged;
  return { from: `forged ${base.name} ${job?.schema ?? ""}`, archive: writeTar(files), pins: forgedPins };
}

function surfaceCase(random: Random): Case {
  const base: Vector = random.pick(random.below(3) === 0 ? vectors : valid);
  const files = mutateBundle(base.files, vectors.map((v) => v.files), random);
  return { from: base.name, archive: writeTar(files), pins: changeKeys(base.pins, random) };
}

/** The key changes with some lines gone, doubled or changed, half of the time. */
function changeKeys(pins: Pins, random: Random): Pins {
  if (pins.keys === undefined || random.below(2) === 0) return pins;
  const lines = pins.keys.split("\n").slice(0, -1);
  const at = random.below(lines.length);
  const line = lines[at] ?? "";
  const byte = random.below(line.length);
  const put = random.pick([[], [line, line], ["", line], [line.slice(0, byte) + random.pick(["0", "1", '"', "{", " ", "é"]) + line.slice(byte + 1)]]);
  lines.splice(at, 1, ...put);
  return { ...pins, keys: lines.map((l) => `${l}\n`).join("") };
}

function ours(c: Case): Outcome {
  try {
    const report = verify(readTar(c.archive), { pins: c.pins, require: claimNames });
    return outcome(report.exit_code, report.claims);
  } catch (error) {
    if (!(error instanceof UnusableError)) throw error;
    return { exit: 2, states: {}, reasons: { unusable: error.message } };
  }
}

function theirs(c: Case, path: string): Outcome {
  const { also = [], keys, ...others } = c.pins;
  const flags = Object.entries(others).flatMap(([name, value]) => [`--${name}`, String(value)]);
  flags.push(...also.flatMap((key) => ["--also", key]));
  if (keys !== undefined) {
    writeFileSync(keysFile, keys);
    flags.push("--keys", keysFile);
  }
  const run = spawnSync(path, ["--json", "--require", claimNames.join(), ...flags, "-"], { input: c.archive, encoding: "utf8", maxBuffer: 1 << 26 });
  if (run.error) throw run.error;
  if (run.status === 2) return { exit: 2, states: {}, reasons: { unusable: run.stderr } };
  const report = JSON.parse(run.stdout) as { exit_code: number; claims: ClaimOutcome[] };
  return outcome(report.exit_code, report.claims);
}

function outcome(exit: number, claims: ClaimOutcome[]): Outcome {
  return {
    exit,
    states: Object.fromEntries(claims.map((c) => [c.name, c.state])),
    reasons: Object.fromEntries(claims.map((c) => [c.name, c.reason])),
  };
}

/** One line for each claim on which the two disagree. */
function disagreements(a: Outcome, b: Outcome): string[] {
  if (a.exit === 2 || b.exit === 2) {
    return a.exit === b.exit ? [] : [`exit: js ${a.exit} ${a.reasons["unusable"] ?? ""} | go ${b.exit} ${b.reasons["unusable"] ?? ""}`];
  }
  const states = claimNames.filter((name) => a.states[name] !== b.states[name]);
  const lines = states.map((name) => `${name}: js ${a.states[name]} (${a.reasons[name]}) | go ${b.states[name]} (${b.reasons[name]})`);
  return a.exit === b.exit ? lines : [...lines, `exit: js ${a.exit} | go ${b.exit}`];
}

function main(): number {
  const text = { type: "string" } as const;
  const { values } = parseArgs({ options: { go: text, n: text, from: text, seeds: text, keep: text } });
  if (values.go === undefined) throw new Error("--go PATH of lightwork-verify is missing");
  const from = Number(values.from ?? 1);
  const seeds = values.seeds === undefined ? [] : (JSON.parse(readFileSync(values.seeds, "utf8")) as number[]);
  for (let i = 0; i < Number(values.n ?? 1000); i++) seeds.push(from + i);
  const seen: Record<string, number> = {};
  let wrong = 0;
  for (const seed of seeds) {
    const c = makeCase(seed);
    const [js, go] = [ours(c), theirs(c, values.go)];
    seen[go.exit] = (seen[go.exit] ?? 0) + 1;
    const lines = disagreements(js, go);
    if (lines.length === 0) continue;
    wrong++;
    console.log(`seed ${seed} (${c.from})\n  ${lines.join("\n  ")}`);
    if (values.keep !== undefined) {
      mkdirSync(values.keep, { recursive: true });
      writeFileSync(join(values.keep, `${seed}.tar`), c.archive);
    }
  }
  console.log(`${seeds.length} bundles, ${wrong} disagreements; exit codes ${JSON.stringify(seen)}`);
  return wrong === 0 ? 0 : 1;
}

try {
  process.exitCode = main();
} finally {
  rmSync(scratch, { recursive: true });
}
