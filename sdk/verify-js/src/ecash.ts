/** The terms of an invoice that is paid in notes of a Cashu mint. */
import { fromUtf8 } from "./hex.js";
import { canonical, parseJson, type Value } from "./json.js";

const maxMint = 128;
const maxLock = 7 * 24 * 3600;
const maxRelays = 4;

/** A mint's address: its URL without the scheme and trailing slash. */
const mintForm = /^(?!\.)[a-z0-9.-]+(?::[0-9]{1,5})?(?:\/[A-Za-z0-9._~\-/]*[A-Za-z0-9._~-])?$/;

export function parseMint(mint: string): boolean {
  return mint.length <= maxMint && mintForm.test(mint);
}

/** The mint in the metadata of an invoice with the prefix lncashu. */
export function mintOfTerms(metadata: Uint8Array): string {
  const text = fromUtf8(metadata);
  const terms = parseJson(text);
  if (!(terms instanceof Map) || terms.size !== 3 || canonical(terms) !== text) throw new Error("bolt11: terms of the mint are not in canonical form");
  const { mint, lock, relays } = { mint: terms.get("mint"), lock: terms.get("lock"), relays: terms.get("relays") };
  if (typeof mint !== "string" || !parseMint(mint)) throw new Error("bolt11: not a mint");
  if (typeof lock !== "number" || !Number.isInteger(lock) || lock < 1 || lock > maxLock) throw new Error("bolt11: not a lock");
  if (!Array.isArray(relays) || relays.length < 1 || relays.length > maxRelays || !relays.every(isRelay)) throw new Error("bolt11: not the relays");
  return mint;
}

function isRelay(value: Value): boolean {
  return typeof value === "string" && /^wss?:\/\//.test(value);
}
