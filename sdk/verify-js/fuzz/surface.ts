/**
 * Mutations of a finished bundle: nothing is signed again, so most are detected
 * by a hash.
 */
import type { Bundle } from "../src/bundle.js";
import { utf8 } from "../src/hex.js";
import { parseJson } from "../src/json.js";
import { mutateValue, write } from "./mutate.js";
import type { Random } from "./random.js";

/** A copy of a bundle with one or a few changes; `others` provide files. */
export function mutateBundle(bundle: Bundle, others: readonly Bundle[], random: Random): Map<string, Uint8Array> {
  const files = new Map(bundle);
  for (let n = random.pick([1, 1, 1, 2, 3]); n > 0; n--) mutateFile(files, others, random);
  return files;
}

function mutateFile(files: Map<string, Uint8Array>, others: readonly Bundle[], random: Random): void {
  const name = random.pick([...files.keys()]);
  const data = files.get(name) ?? new Uint8Array();
  switch (random.below(7)) {
    case 0:
      files.delete(name);
      break;
    case 1:
      files.set(name, random.pick(others).get(name) ?? new Uint8Array());
      break;
    case 2:
      files.set(name, random.pick([...files.values()]));
      break;
    case 3:
      files.set(random.pick(["x.json", "receipt.json", "artifacts/x", `artifacts/${"a".repeat(64)}`, "SEAL.json", "ACCEPTANCE.event.json", "QUOTE.event.json"]), data);
      break;
    case 4:
      files.set(name, flipped(data, random));
      break;
    default:
      files.set(name, rewritten(data, random));
  }
}

function flipped(data: Uint8Array, random: Random): Uint8Array {
  const at = random.below(data.length + 1);
  const copy = data.slice();
  switch (random.below(4)) {
    case 0:
      copy[at] = (copy[at] ?? 0) ^ (1 << random.below(8));
      return copy;
    case 1:
      return copy.slice(0, at);
    case 2:
      return Uint8Array.from([...copy.slice(0, at), random.below(256), ...copy.slice(at)]);
    default:
      return Uint8Array.from([...copy, ...random.pick([utf8("\n"), utf8(" "), utf8("{}"), Uint8Array.of(0), Uint8Array.of(0xff)])]);
  }
}

/** Changes one value in a JSON document, or a line of the record. */
function rewritten(data: Uint8Array, random: Random): Uint8Array {
  // Lossy if an earlier change left invalid UTF-8.
  const lines = new TextDecoder().decode(data).split("\n");
  const at = random.below(Math.max(1, lines.length - 1));
  try {
    lines[at] = write(mutateValue(parseJson(lines[at] ?? ""), random), random);
  } catch {
    lines.splice(at, 1); // not JSON: remove the line
  }
  return utf8(lines.join("\n"));
}
