import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import { jobType } from "../src/jobtypes.js";
import { jobSchemas } from "../src/schemas.gen.js";

const id = "oa.sandbox_run.v1";
const cases = process.env["LIGHTWORK_SANDBOX_REQUESTS"] ?? join(import.meta.dirname, "../../../../schemas/testdata/sandbox_requests.json");
const least = { sandbox: { image_digest: `sha256:${"1".repeat(64)}` }, commands: [{ cmd: "true" }] };

/** What ajv says of the published schema, this verifier and the node say alike: the node's test has the same requests. */
test("ajv refuses what the rules refuse, and takes what they take", () => {
  const takes = new Ajv2020({ strict: false }).compile(jobSchemas.get(id)?.input ?? false);
  const all = JSON.parse(readFileSync(cases, "utf8")) as ({ ok: boolean } & Record<string, unknown>)[];
  assert.ok(all.length > 100);
  for (const { ok, ...fields } of all) {
    const request = { ...least, ...fields };
    const text = JSON.stringify(request);
    assert.equal(takes(request), ok, `ajv: ${text}`);
    assert.equal(ours(text), ok, `the rules: ${text}`);
  }
});

function ours(text: string): boolean {
  try {
    jobType(id)?.parseRequest(text);
    return true;
  } catch {
    return false;
  }
}
