/** The command: what it opens, and how it ends. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { writeTar } from "../fuzz/tar.js";
import { readVector } from "../fuzz/vectors.js";
import type { Report } from "../src/index.js";

const dir = mkdtempSync(join(tmpdir(), "verify-cli-"));
after(() => rmSync(dir, { recursive: true }));

function run(args: string[], input?: Uint8Array): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(process.execPath, [join(import.meta.dirname, "../src/cli.js"), ...args], { encoding: "utf8", ...(input && { input }) });
}

function folder(vector: string): string {
  for (const [name, data] of readVector(vector).files) {
    const path = join(dir, vector, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, data);
  }
  return join(dir, vector);
}

test("a folder, an archive and standard input", () => {
  const archive = writeTar(readVector("valid").files);
  writeFileSync(join(dir, "valid.tar"), archive);
  for (const [args, input] of [[[folder("valid")]], [[join(dir, "valid.tar")]], [["-"], archive]] as [string[], Uint8Array?][]) {
    const { status, stdout } = run(args, input);
    assert.equal(status, 0);
    assert.match(stdout, /every required claim is proved \(exit 0\)/);
  }
});

test("exit codes", () => {
  const valid = folder("valid");
  const report = JSON.parse(run(["--json", folder("artifact_absent")]).stdout) as Report;
  assert.equal(report.exit_code, 3);
  assert.equal(report.claims.find((c) => c.name === "result")?.state, "not provable");
  for (const [want, ...args] of [
    [1, folder("result_swapped")], [3, folder("artifact_absent")], [3, valid, "--require", "payee_pinned"], [1, "--network", "mainnet", valid],
    [2, valid, "--require", "nothing"], [2, valid, "--provider", "npub1x"], [2, valid, "--payee", "00"], [2, "--network", "x", valid], [2, valid, valid], [2], [2, "--bad"],
    [2, join(dir, "absent")], [2, dir], [0, "--help"],
  ] as [number, ...string[]][]) {
    const { status, stderr } = run(args);
    assert.equal(status, want, args.join(" "));
    assert.equal(stderr === "", want !== 2, args.join(" "));
  }
});

test("JSON steers no terminal", () => {
  const hostile = "z\u009b2J\x7f\u202e<b>\u2066\u{e0001}";
  const path = folder("artifact_absent");
  const quote = readFileSync(join(path, "QUOTE.json"), "utf8");
  writeFileSync(join(path, "QUOTE.json"), quote.replace(/}$/, `,"${hostile}":1}`)); // the report says that it is unknown
  const { stdout } = run(["--json", path]);
  assert.doesNotMatch(stdout, /[^\P{C}\n]/u);
  const report = JSON.parse(stdout) as Report;
  const shown = report.claims.flatMap((c) => c.steps.map((s) => s.detail ?? ""));
  assert.ok(shown.some((detail) => detail.includes(hostile)), stdout);
});

test("a link makes a folder unusable", () => {
  const path = folder("valid_sealed");
  symlinkSync("RECEIPT.json", join(path, "PREVIOUS.json"));
  assert.match(run([path]).stderr, /not a regular file/);
});
