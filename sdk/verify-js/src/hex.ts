import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, hexToBytes } from "@noble/hashes/utils.js";

const lowerHex = /^(?:[0-9a-f]{2})*$/;

/**
 * Whether text is lower-case hex of exactly `bytes` bytes: every document has
 * one spelling.
 */
export function isHex(text: string, bytes: number): boolean {
  return text.length === 2 * bytes && lowerHex.test(text);
}

export function isDigest(text: string): boolean {
  return text.startsWith("sha256:") && isHex(text.slice(7), 32);
}

/** Returns `sha256:<64 hex digits>`. */
export function digest(data: Uint8Array | string): string {
  return `sha256:${hashHex(data)}`;
}

export function hashHex(data: Uint8Array | string): string {
  return bytesToHex(sha256(typeof data === "string" ? utf8(data) : data));
}

const encoder = new TextEncoder();

export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}

/** Decodes UTF-8; throws a TypeError on an invalid sequence. Keeps a byte order mark. */
export function fromUtf8(data: Uint8Array): string {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
}

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

export { bytesToHex, hexToBytes };
