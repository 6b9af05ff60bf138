import assert from "node:assert/strict";
import { test } from "node:test";
import { readVectors } from "../fuzz/vectors.js";
import { claimNames, UnusableError, verify, type Bundle, type Pins } from "../src/index.js";

function states(bundle: Bundle, pins: Pins): { exit: number; notProved: Record<string, string> } {
  try {
    const report = verify(bundle, { pins, require: claimNames });
    const notProved = report.claims.filter((c) => c.state !== "proved").map((c) => [c.name, c.state]);
    return { exit: report.exit_code, notProved: Object.fromEntries(notProved) as Record<string, string> };
  } catch (error) {
    if (error instanceof UnusableError) return { exit: 2, notProved: {} };
    throw error;
  }
}

const vectors = readVectors();

test("there are vectors", () => assert.ok(vectors.length > 100));
for (const v of vectors) {
  test(`${v.name}: ${v.about}`, () => {
    assert.deepEqual(states(v.files, v.pins), { exit: v.exitCode, notProved: v.notProved });
    for (const [claim, words] of Object.entries(v.because)) {
      const reason = verify(v.files, { pins: v.pins, require: claimNames }).claims.find((c) => c.name === claim)?.reason ?? "";
      assert.ok(reason.includes(words), `${claim}: ${reason}`);
    }
  });
}
