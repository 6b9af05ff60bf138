import { secp256k1 } from "@noble/curves/secp256k1.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { decodeBech32, padWords, wordsToBytes } from "./bech32.js";
import { mintOfTerms, parseMint } from "./ecash.js";
import { bytesToHex, fromUtf8, hexToBytes, utf8 } from "./hex.js";

/**
 * A mint's network is "cashu:" and the mint's address; "chain:mainnet" is that
 * of on-chain transactions.
 */
export type Network = "mainnet" | "testnet" | "signet" | "regtest" | "simnet" | "play" | `cashu:${string}` | `chain:${string}`;

/** The network part of an invoice's prefix. */
const currencies: Record<string, Network> = {
  bc: "mainnet", tb: "testnet", tbs: "signet", bcrt: "regtest", sb: "simnet", play: "play",
};

/** The names of networks, except those of mints. */
export const networks: readonly string[] = Object.values(currencies);

/** The mint of a network. */
export function mintOf(network: string): string | undefined {
  return network.startsWith("cashu:") ? network.slice("cashu:".length) : undefined;
}

/** The network of on-chain transactions on this one's chain; undefined if it has none. */
export function onChain(network: Network): Network | undefined {
  return ["mainnet", "testnet", "signet", "regtest", "simnet"].includes(network) ? `chain:${network}` : undefined;
}

/** The network whose chain a network uses. */
export function chainOf(network: string): string | undefined {
  return network.startsWith("chain:") ? network.slice("chain:".length) : undefined;
}

/** Whether a network has this name. */
export function isNetwork(name: string): boolean {
  const chain = chainOf(name);
  if (chain !== undefined) return onChain(chain as Network) === name;
  const mint = mintOf(name);
  return mint === undefined ? networks.includes(name) : parseMint(mint);
}

/** The fields of a BOLT11 invoice that the receipt needs. */
export interface Invoice {
  network: Network;
  /** undefined: the invoice leaves the amount open */
  msats: number | undefined;
  paymentHash: string;
  descriptionHash: string | undefined;
  /** the compressed key that signed it */
  payee: string;
  /** The invoice names one segwit address of its network's chain. */
  namesAddress: boolean;
}

/** Picobitcoin per unit; one msat is 10 of them. */
const units: Record<string, bigint> = { "": 1_000_000_000_000n, m: 1_000_000_000n, u: 1_000_000n, n: 1_000n, p: 1n };
const signatureWords = 104;
const timestampWords = 7;

/**
 * Decodes an invoice, all lower or all upper case, with the checks that BOLT 11
 * requires of a reader.
 */
export function decodeInvoice(text: string): Invoice {
  const { prefix, words } = decodeBech32(text === text.toUpperCase() ? text.toLowerCase() : text);
  const [, currency = "", amount = "", unit = ""] = /^ln(bcrt|bc|tbs|tb|sb|play|cashu)(?:([0-9]+)([munp]?))?$/.exec(prefix) ?? [];
  if (currency !== "cashu" && !currencies[currency]) throw new Error("bolt11: unknown network");
  if (words.length < timestampWords + signatureWords) throw new Error("bolt11: too short");
  const data = words.slice(0, -signatureWords);
  const fields = readFields(data.slice(timestampWords));
  const network: Network = currencies[currency] ?? `cashu:${mintOfTerms(fields.metadata)}`;
  const payee = signer(prefix, data, words.slice(-signatureWords), fields.payee);
  return {
    network,
    msats: amount === "" ? undefined : parseAmount(amount, unit),
    paymentHash: fields.paymentHash ?? "",
    descriptionHash: fields.descriptionHash,
    payee,
    namesAddress: fields.fallbacks.length === 1 && (fields.fallbacks[0] ?? 17) < 17 && onChain(network) !== undefined,
  };
}

function parseAmount(digits: string, unit: string): number {
  const pico = BigInt(digits) * (units[unit] ?? 0n);
  if (pico % 10n !== 0n) throw new Error("bolt11: a fraction of a millisatoshi");
  const msats = Number(pico / 10n);
  if (digits.startsWith("0") || digits.length > 18 || !Number.isSafeInteger(msats)) throw new Error("bolt11: bad amount");
  return msats;
}

interface Fields {
  paymentHash?: string;
  descriptionHash?: string;
  payee?: string;
  metadata: Uint8Array;
  /** The versions of the addresses that are not skipped. */
  fallbacks: number[];
}

/** The types of tagged fields (BOLT 11). */
const field = { p: 1, r: 3, nine: 5, x: 6, f: 9, d: 13, s: 16, n: 19, h: 23, c: 24, m: 27 };

/**
 * The required feature bits that are supported: onion, payment secret, multi-
 * part, metadata.
 */
const features = [8, 14, 16, 48];

function readFields(words: number[]): Fields {
  const seen = new Map<number, Uint8Array>();
  const fallbacks: number[] = [];
  while (words.length > 0) {
    const [type = 0, high = 0, low = 0] = words;
    const end = 3 + high * 32 + low;
    if (words.length < Math.max(3, end)) throw new Error("bolt11: cut field");
    const repeats = type === field.r || type === field.f;
    const value = seen.has(type) && !repeats ? undefined : readField(type, words.slice(3, end));
    if (value) seen.set(type, value); // the first of a repeated field counts
    if (value && type === field.f) fallbacks.push(value[0] ?? 0);
    words = words.slice(end);
  }
  const { p, s, d, h, n, m } = field;
  if (!seen.has(p) || !seen.has(s)) throw new Error("bolt11: no payment hash or no payment secret");
  if (seen.has(d) === seen.has(h)) throw new Error("bolt11: not one of description and description hash");
  const fields: Fields = { metadata: seen.get(m) ?? new Uint8Array(), fallbacks };
  for (const [name, type] of [["paymentHash", p], ["descriptionHash", h], ["payee", n]] as const) {
    const value = seen.get(type);
    if (value) fields[name] = bytesToHex(value);
  }
  return fields;
}

/**
 * Returns the bytes of a field; undefined if it is to be skipped. Throws if it
 * must be refused.
 */
function readField(type: number, words: number[]): Uint8Array | undefined {
  switch (type) {
    case field.p:
    case field.s:
    case field.h:
      return words.length === 52 ? bytesOf(words) : undefined;
    case field.n:
      return words.length === 53 ? keyOf(bytesOf(words)) : undefined;
    case field.d:
      fromUtf8(bytesOf(words));
      return bytesOf(words);
    case field.m:
      return bytesOf(words);
    case field.x:
      return numberOf(words, 9_223_372_036n); // seconds, 292 years
    case field.c:
      return numberOf(words, 0xffff_ffffn);
    case field.nine:
      return checkFeatures(words);
    case field.f:
      return checkFallback(words);
    case field.r:
      return checkRoute(bytesOf(words));
  }
  return undefined;
}

function bytesOf(words: number[]): Uint8Array {
  const bytes = wordsToBytes(words);
  if (!bytes) throw new Error("bolt11: padding that is not zero");
  return bytes;
}

function keyOf(bytes: Uint8Array): Uint8Array {
  secp256k1.Point.fromBytes(bytes); // throws if it is not a key
  return bytes;
}

function numberOf(words: number[], max: bigint): Uint8Array {
  const value = words.reduce((n, word) => n * 32n + BigInt(word), 0n);
  if (!words[0] || words.length > 12 || value > max) throw new Error("bolt11: a number that is zero, too long or too large");
  return Uint8Array.from(words);
}

/** Unknown odd bits may be ignored, unknown even ones not. */
function checkFeatures(words: number[]): Uint8Array {
  if (words[0] === 0) throw new Error("bolt11: features with leading zeros");
  for (let bit = 0; bit < words.length * 5; bit += 2) {
    const word = words[words.length - 1 - Math.floor(bit / 5)] ?? 0;
    if ((word >> bit % 5) & 1 && !features.includes(bit)) throw new Error(`bolt11: unknown required feature ${bit}`);
  }
  return Uint8Array.from(words);
}

function checkFallback(words: number[]): Uint8Array | undefined {
  const [version, ...program] = words;
  if (version === undefined) throw new Error("bolt11: an address without a version");
  if (version > 18) return undefined;
  const n = bytesOf(program).length;
  const lengths = version === 0 ? [20, 32] : version === 1 ? [32] : version > 16 ? [20] : undefined;
  if (lengths ? !lengths.includes(n) : n < 2 || n > 40) throw new Error("bolt11: an address of a wrong length");
  return Uint8Array.from(words);
}

const hopBytes = 51;

function checkRoute(bytes: Uint8Array): Uint8Array {
  if (bytes.length === 0 || bytes.length % hopBytes !== 0) throw new Error("bolt11: not a whole number of hops");
  for (let at = 0; at < bytes.length; at += hopBytes) keyOf(bytes.subarray(at, at + 33));
  return bytes;
}

/**
 * Returns the key that signed the prefix and the words, padded to whole bytes.
 * A key that the invoice names must have signed, with a low S; otherwise the
 * key is recovered, from a low or high S.
 */
function signer(prefix: string, data: number[], signature: number[], named: string | undefined): string {
  const sig = bytesOf(signature);
  const id = sig[64] ?? 255;
  if (id > 3) throw new Error("bolt11: bad recovery id");
  const hash = sha256(Uint8Array.from([...utf8(prefix), ...padWords(data)]));
  if (named === undefined) {
    const recovered = Uint8Array.from([id, ...sig.subarray(0, 64)]);
    return bytesToHex(secp256k1.recoverPublicKey(recovered, hash, { prehash: false }));
  }
  if (!secp256k1.verify(sig.subarray(0, 64), hash, hexToBytes(named), { prehash: false, lowS: true })) {
    throw new Error("bolt11: the payee that is named did not sign");
  }
  return named;
}
