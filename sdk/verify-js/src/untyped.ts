/**
 * Requests without a schema: as in NIP-90, the inputs are the prompt of a text
 * generation.
 */
import { require } from "./claim.js";
import type { Receipt } from "./documents.js";
import type { Evidence } from "./evidence.js";
import { parseJson } from "./json.js";
import { tagsNamed, type Event } from "./nostr.js";

const textGeneration = "oa.text_generation.v1";
const schemaParams = ["schema", "schema_id", "job_type"];
/** Types of an input that is in the tag itself; a missing type counts as "". */
export const inputTypes = ["", "text", "prompt"];
const maxInputs = 16;

/** The formats of sampling parameters. */
const numbers: Record<string, RegExp> = {
  max_tokens: /^(?:0|-?[1-9][0-9]{0,15})$/,
  seed: /^(?:0|-?[1-9][0-9]{0,15})$/,
  temperature: /^[0-9](?:\.[0-9]{1,9})?$/,
  top_p: /^[0-9](?:\.[0-9]{1,9})?$/,
};

/** Whether the receipt is for a text generation that was requested without a schema. */
export function isUntyped(receipt: Receipt, event: Event): boolean {
  if (receipt.schema_id !== textGeneration || tagsNamed(event, "encrypted").length > 0) return false;
  try {
    readUntyped(event);
    return true;
  } catch {
    return false;
  }
}

/** The request document derived from the inputs and params. */
export function readUntyped(event: Event): { schema: string; input: string } {
  const fields = new Map<string, string>();
  for (const [, name = "", value] of tagsNamed(event, "param")) {
    if (value === undefined) continue;
    require(!schemaParams.includes(name), "it names a schema");
    const form = Object.hasOwn(numbers, name) ? numbers[name] : undefined;
    if (!form) continue;
    require(!fields.has(name), `the tag param ${name} is there twice`);
    require(form.test(value), `${name} is not a number`);
    fields.set(name, value);
  }
  const inputs = tagsNamed(event, "i");
  require(inputs.every((tag) => tag.length >= 2), "an input has no content");
  require(inputs.every((tag) => inputTypes.includes(tag[2] ?? "")), "an input is not text");
  require(inputs.length > 0 && inputs.length <= maxInputs, "it has no input, or too many");
  fields.set("prompt", JSON.stringify(inputs.map((tag) => tag[1]).join("\n\n")));
  return { schema: textGeneration, input: `{${[...fields].map(([name, value]) => `"${name}":${value}`).join(",")}}` };
}

/**
 * The text in RESULT.json, which is the whole content of an untyped request's
 * result event; undefined for other results.
 */
export function wordsOf(e: Evidence, document: string): string | undefined {
  if (!e.untyped) return undefined;
  try {
    const result = parseJson(document);
    const text = result instanceof Map ? result.get("text") : undefined;
    return typeof text === "string" ? text : undefined;
  } catch {
    return undefined;
  }
}
