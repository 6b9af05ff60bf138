/** Invoices that are changed and signed again. */
import { secp256k1 } from "@noble/curves/secp256k1.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { encodeBech32, padWords } from "../src/bech32.js";
import { bytesToHex, hexToBytes, utf8 } from "../src/hex.js";
import type { Random } from "./random.js";

const node = sha256(utf8("node"));

/** The signing key. */
export const payee = bytesToHex(secp256k1.getPublicKey(node));

export function toWords(bytes: Uint8Array): number[] {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return (bits.match(/.{1,5}/g) ?? []).map((word) => parseInt(word.padEnd(5, "0"), 2));
}

function field(type: number, words: number[]): number[] {
  return [type, words.length >> 5, words.length & 31, ...words];
}

/** The fields after the timestamp in an invoice's words. */
function fieldsOf(data: number[]): number[][] {
  const fields: number[][] = [];
  for (let at = 7; at < data.length; ) {
    const end = at + 3 + (data[at + 1] ?? 0) * 32 + (data[at + 2] ?? 0);
    fields.push(data.slice(at, end));
    at = end;
  }
  return fields;
}

export function replaceField(data: number[], type: number, words: number[]): number[] {
  return [...data.slice(0, 7), ...fieldsOf(data).flatMap((f) => (f[0] === type ? field(type, words) : f))];
}

export function changedPrefix(prefix: string, random: Random): string {
  const amounts = ["", "210n", "0210n", "210000p", "210001p", "21u", "0", "0n", "1", "21000000", "90071992547409930000p", "99999999999999999999", "210x", "n"];
  return random.pick([
    `ln${random.pick(["bc", "tb", "tbs", "bcrt", "sb", "play", "xx", ""])}${random.pick(amounts)}`,
    prefix.replace(/[0-9]+n?$/, random.pick(amounts)),
  ]);
}

/** Adds, removes, duplicates, truncates or falsifies a field of the invoice. */
export function changedWords(data: number[], random: Random): number[] {
  const fields = fieldsOf(data);
  const i = random.below(fields.length);
  const old = fields[i] ?? [];
  const hash = () => toWords(sha256(utf8(String(random.below(1000)))));
  const extra = random.pick([
    field(1, hash()), field(23, hash()), field(16, hash()), field(19, toWords(secp256k1.getPublicKey(node))),
    field(19, toWords(secp256k1.getPublicKey(sha256(utf8("another"))))), field(13, toWords(utf8("words"))), field(13, [1]), field(1, hash().slice(1)),
    field(23, [...hash(), 0]), field(5, [1]), field(5, [0, 1]), field(5, [16, 0, 0]), field(2, [1, 2]), field(3, hash()), field(27, toWords(utf8("meta"))),
    field(6, [31, 31, 31, 31, 31, 31, 31, 31, 31, 31, 31, 31, 31, 31]), field(24, [1]), field(9, [0, 0]), [1], [1, 2], field(9, hash()).slice(0, -1), field(17, hash()),
  ]);
  const changed = random.pick([fields.toSpliced(i, 1), fields.toSpliced(i, 0, old), fields.toSpliced(i, 0, extra), [...fields, extra], fields.toReversed(), [...fields, field(1, hash())]]);
  return [...data.slice(0, 7), ...changed.flat()];
}

const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

export function signInvoice(prefix: string, data: number[], random?: Random): string {
  const hash = sha256(Uint8Array.from([...utf8(prefix), ...padWords(data)]));
  const sig = secp256k1.sign(hash, node, { prehash: false, format: "recovered" });
  let [id = 0, ...rs] = sig;
  if (random?.below(6) === 0) {
    // The same signature with a high S, from which the same key is recovered.
    const s = order - BigInt(`0x${bytesToHex(Uint8Array.from(rs.slice(32)))}`);
    rs = [...rs.slice(0, 32), ...hexToBytes(s.toString(16).padStart(64, "0"))];
    id ^= 1;
  }
  if (random?.below(12) === 0) id = random.pick([2, 3, 4, 27, 255]);
  return encodeBech32(prefix, [...data, ...toWords(Uint8Array.from([...rs, id]))]);
}
