import { bytesToHex } from "./hex.js";

const alphabet = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const generator = [0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3];

/** A bech32 string (BIP-173) without its checksum; words are 5 bits each. */
export interface Bech32 {
  prefix: string;
  words: number[];
}

/**
 * Decodes bech32 of any length: an invoice is longer than BIP-173 allows. Upper
 * and mixed case are refused, because every document has one spelling.
 */
export function decodeBech32(text: string): Bech32 {
  const split = text.lastIndexOf("1");
  if (split < 1 || text.length - split < 7) throw new Error("bech32: no prefix or no checksum");
  const prefix = text.slice(0, split);
  if (!/^[\x21-\x40\x5b-\x7e]+$/.test(prefix)) throw new Error("bech32: bad character in the prefix");
  const words = [...text.slice(split + 1)].map((c) => alphabet.indexOf(c));
  if (words.includes(-1)) throw new Error("bech32: bad character");
  if (polymod([...expand(prefix), ...words]) !== 1) throw new Error("bech32: bad checksum");
  return { prefix, words: words.slice(0, -6) };
}

/** The inverse of decodeBech32. */
export function encodeBech32(prefix: string, words: number[]): string {
  const sum = polymod([...expand(prefix), ...words, 0, 0, 0, 0, 0, 0]) ^ 1;
  const check = [25, 20, 15, 10, 5, 0].map((shift) => (sum >>> shift) & 31);
  return `${prefix}1${[...words, ...check].map((word) => alphabet[word]).join("")}`;
}

function expand(prefix: string): number[] {
  const codes = [...prefix].map((c) => c.charCodeAt(0));
  return [...codes.map((c) => c >> 5), 0, ...codes.map((c) => c & 31)];
}

function polymod(words: number[]): number {
  let sum = 1;
  for (const word of words) {
    const top = sum >>> 25;
    sum = ((sum & 0x1ffffff) << 5) ^ word;
    generator.forEach((g, i) => {
      if ((top >>> i) & 1) sum ^= g;
    });
  }
  return sum;
}

/** Converts words to bytes; undefined if the padding is a whole word or not zero. */
export function wordsToBytes(words: number[]): Uint8Array | undefined {
  const spare = (words.length * 5) % 8;
  const bytes = padWords(words);
  if (spare === 0) return bytes;
  const last = bytes.at(-1);
  return spare < 5 && last === 0 ? bytes.subarray(0, -1) : undefined;
}

/** Converts words to bytes, with zero bits after the last word up to a whole byte. */
export function padWords(words: number[]): Uint8Array {
  const bytes = new Uint8Array(Math.ceil((words.length * 5) / 8));
  words.forEach((word, i) => {
    const bit = i * 5;
    const shifted = word << (11 - (bit & 7)); // fits in two bytes
    bytes[bit >> 3]! |= shifted >> 8;
    if ((bit & 7) > 3) bytes[(bit >> 3) + 1]! |= shifted & 0xff;
  });
  return bytes;
}

/** Returns the x-only key in hex of an npub (NIP-19); undefined if it is not one. */
export function decodeNpub(text: string): string | undefined {
  try {
    const { prefix, words } = decodeBech32(text);
    const key = wordsToBytes(words);
    return prefix === "npub" && key?.length === 32 ? bytesToHex(key) : undefined;
  } catch {
    return undefined;
  }
}
