/** Jobs of the types that are in no vector. */
import { parseJson, type ObjectValue } from "../src/json.js";

export interface Work {
  schema: string;
  /** the name that the request uses for the schema */
  asked: string;
  input: string;
  result: ObjectValue;
}

function work(schema: string, input: unknown, result: unknown, asked = schema): Work {
  return { schema, asked, input: JSON.stringify(input), result: parseJson(JSON.stringify(result)) as ObjectValue };
}

const provenance = { model_id: "model", tokens: { input: 3, output: 5 }, sampling: { top_p: 0.5, seed: 7 } };
const image = `sha256:${"a".repeat(64)}`;

export const jobs: Work[] = [
  work(
    "oa.embedding.v1",
    { texts: ["one", "two"], dimensions: 3 },
    { embeddings: [[0.1, -2.5e-9, 3], [1, 0.30000000000000004, 123456.789]], model_id: "model", dimensions: 3, provenance },
  ),
  work(
    "oa.text_generation.v1",
    { prompt: "Say é", system: "Be short.", max_tokens: 5, temperature: 0.5, top_p: 1, seed: -7 },
    { text: "é", finish_reason: "stop", provenance },
  ),
  work("oa.embedding.v1", { texts: [""] }, { embeddings: [[0]], model_id: "m", dimensions: 1, provenance }, "oa.embeddings.v1"),
  work(
    "oa.retrieval_rerank.v1",
    { user_task: "find", candidates: [{ id: "a", content: "x", original_score: 0.5, metadata: { z: 1, y: [null] } }, { id: "b", content: "y" }, { id: "é", content: "" }], k: 2 },
    { topk: [{ rank: 1, id: "b", score: 0.9, why: "closer" }, { rank: 2, id: "a", score: 1e-7 }], provenance },
  ),
  work(
    "oa.code_chunk_analysis.v1",
    { task: "look", chunk: { path: "a.go", start_line: 10, end_line: 20, content: "x" }, output_constraints: { max_symbols: 1, max_summary_length: 9 } },
    {
      summary: "short 😀", symbols: [{ name: "f", kind: "func", line: 12 }], suspected_faults: [{ line: 20, severity: "low", description: "d" }],
      recommended_next_probes: [{ path: "b.go", reason: "r", priority: "high" }], confidence: 0.75, provenance,
    },
  ),
  work(
    "oa.sandbox_run.v1",
    {
      sandbox: { image_digest: image, resources: { cpus: 0.5, timeout_secs: 10 } }, env: { A: "1", B_2: "é" }, repo: { mount_path: "/src" },
      commands: [{ cmd: "true", workdir: "sub/dir", continue_on_fail: true }, { cmd: "false", workdir: "/tmp" }, { cmd: "true" }],
      verification: { expected: { exit_codes: [1, 1] } },
    },
    {
      env_info: { image_digest: image, hostname: "h" }, status: "failed", artifacts: [], provenance,
      runs: [1, 1].map((code, i) => ({ cmd: i === 0 ? "true" : "false", exit_code: code, duration_ms: 1, stdout_sha256: image, stderr_sha256: image, stdout_preview: "hi" })),
    },
  ),
  work(
    "oa.sandbox_run.v1",
    { sandbox: { image_digest: image }, commands: [{ cmd: "date" }], verification: { redundancy: 3, adjudication: "majority_vote", compare_stdout: true } },
    {
      env_info: { image_digest: image }, status: "success", artifacts: [], provenance,
      runs: [{ cmd: "date", exit_code: 0, duration_ms: 1, stdout_sha256: image, stderr_sha256: image }],
    },
  ),
];
