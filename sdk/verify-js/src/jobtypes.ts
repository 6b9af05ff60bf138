/**
 * The requirements of job types on requests and results beyond their JSON
 * Schemas. Every check gets a value that is valid under the schema.
 */
import { utf8 } from "./hex.js";
import { parseJson, type ObjectValue, type Value } from "./json.js";
import { count, demand, list, object, text, values, type Rules } from "./rules.js";
import { sandboxRun } from "./sandbox_run.js";
import { SchemaError, validate, withDefaults, type JobSchemas } from "./schema.js";
import { jobSchemas } from "./schemas.gen.js";

/** A job type. Its checks throw a SchemaError. */
export interface JobType {
  id: string;
  /** Decodes a request and fills in its defaults. */
  parseRequest(text: string): ObjectValue;
  parseResult(text: string): ObjectValue;
  /** The checks that need the request: whether the result answers it. */
  checkAnswer(request: ObjectValue, result: ObjectValue): void;
  /**
   * The agreements that honest providers' results have in common, for the
   * request's rules; without the request, all possible ones. Empty if the type
   * has none.
   */
  agreements(result: ObjectValue, request?: ObjectValue): Value[];
}

const maxRequestBytes = 1 << 20;
const maxResultBytes = 4 << 20;

/** Other names of job types. */
const aliases: ReadonlyMap<string, string> = new Map([["oa.embeddings.v1", "oa.embedding.v1"]]);

/** Returns the job type of a schema id; undefined if it is unknown. */
export function jobType(name: string): JobType | undefined {
  const id = aliases.get(name) ?? name;
  const schemas = jobSchemas.get(id);
  const rules = Object.hasOwn(rulesOf, id) ? rulesOf[id] : undefined;
  return schemas && rules && build(id, schemas, rules);
}

function build(id: string, schemas: JobSchemas, rules: Rules): JobType {
  return {
    id,
    parseRequest(text) {
      const value = withDefaults(schemas.input, read(text, maxRequestBytes));
      validate(schemas.input, value);
      const request = withoutEmpty(value as ObjectValue);
      rules.request(request);
      return request;
    },
    parseResult(text) {
      const value = read(text, maxResultBytes);
      validate(schemas.output, value);
      rules.result(value as ObjectValue);
      return value as ObjectValue;
    },
    checkAnswer: rules.answer,
    agreements(result, request) {
      const counts = object(request ?? new Map(), "verification").get("compare_stdout") === true;
      const ways = request ? [counts] : [false, true];
      return ways.map((stdout) => rules.agreement(result, stdout)).filter((value) => value !== undefined);
    },
  };
}

function read(text: string, limit: number): Value {
  if (utf8(text).length > limit) throw new SchemaError("", `has more than ${limit} bytes`);
  return parseJson(text);
}

/**
 * The typed request leaves out an empty env, empty metadata and a
 * compare_stdout of false, which mean the same as absent ones.
 */
function withoutEmpty(request: ObjectValue): ObjectValue {
  if (isEmpty(request.get("env"))) request.delete("env");
  const verification = request.get("verification");
  if (verification instanceof Map && verification.get("compare_stdout") === false) verification.delete("compare_stdout");
  for (const candidate of list(request, "candidates")) {
    if (isEmpty(candidate.get("metadata"))) candidate.delete("metadata");
  }
  return request;
}

function isEmpty(value: Value | undefined): boolean {
  return value instanceof Map && value.size === 0;
}

const codeChunk: Rules = {
  request(request) {
    const chunk = object(request, "chunk");
    demand(count(chunk, "end_line") >= count(chunk, "start_line"), "chunk.end_line", "is before start_line");
  },
  result() {},
  answer(request, result) {
    const limits = object(request, "output_constraints");
    const lengths: [string, number, string][] = [
      ["summary", [...text(result, "summary")].length, "max_summary_length"],
      ["symbols", list(result, "symbols").length, "max_symbols"],
      ["suspected_faults", list(result, "suspected_faults").length, "max_faults"],
      ["recommended_next_probes", list(result, "recommended_next_probes").length, "max_next_probes"],
    ];
    for (const [name, got, limit] of lengths) demand(!limits.has(limit) || got <= count(limits, limit), name, "is longer than was ordered");
    const chunk = object(request, "chunk");
    for (const name of ["symbols", "suspected_faults"]) {
      for (const item of list(result, name)) {
        const line = count(item, "line");
        demand(line >= count(chunk, "start_line") && line <= count(chunk, "end_line"), name, "name a line outside the chunk");
      }
    }
  },
  agreement: () => undefined,
};

const rerank: Rules = {
  request(request) {
    const ids = list(request, "candidates").map((c) => text(c, "id"));
    demand(new Set(ids).size === ids.length, "candidates", "have an id twice");
  },
  result(result) {
    const topk = list(result, "topk");
    demand(topk.every((t, i) => count(t, "rank") === i + 1), "topk", "are not in the order of their ranks");
    demand(new Set(topk.map((t) => text(t, "id"))).size === topk.length, "topk", "have an id twice");
  },
  answer(request, result) {
    const candidates = new Set(list(request, "candidates").map((c) => text(c, "id")));
    const topk = list(result, "topk");
    demand(topk.length === Math.min(count(request, "k"), candidates.size), "topk", "are not as many as were ordered");
    demand(topk.every((t) => candidates.has(text(t, "id"))), "topk", "name something that is no candidate");
  },
  agreement: (result) => new Map([["ids", list(result, "topk").map((t) => text(t, "id"))]]),
};

const embedding: Rules = {
  request() {},
  result(result) {
    const fits = values(result, "embeddings").every((v) => (v as Value[]).length === count(result, "dimensions"));
    demand(fits, "embeddings", "have not the length that dimensions says");
  },
  answer(request, result) {
    demand(values(result, "embeddings").length === values(request, "texts").length, "embeddings", "are not one for each text");
    const ordered = request.get("dimensions");
    demand(ordered === undefined || result.get("dimensions") === ordered, "dimensions", "are not those that were ordered");
  },
  agreement: (result) =>
    new Map<string, Value>(["model_id", "dimensions", "embeddings"].map((name) => [name, result.get(name) ?? null])),
};

/** Any text answers a prompt. */
const textGeneration: Rules = { request() {}, result() {}, answer() {}, agreement: () => undefined };

const rulesOf: Record<string, Rules> = {
  "oa.sandbox_run.v1": sandboxRun,
  "oa.code_chunk_analysis.v1": codeChunk,
  "oa.retrieval_rerank.v1": rerank,
  "oa.embedding.v1": embedding,
  "oa.text_generation.v1": textGeneration,
};
