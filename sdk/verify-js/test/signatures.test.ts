/** An event that its author did not sign proves nothing, even where every hash fits. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { schnorr } from "@noble/curves/secp256k1.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { readVector } from "../fuzz/vectors.js";
import { bytesToHex, fromUtf8, hexToBytes, utf8 } from "../src/hex.js";
import { verify } from "../src/index.js";
import { encodeEvent, parseEvent, type Event } from "../src/nostr.js";

const claims = { RECEIPT: "signature", REQUEST: "job", RESULT: "result", ACCEPTANCE: "buyer_accepted" };

const forgeries: Record<string, (e: Event) => Event> = {
  "a flipped bit of R": (e) => ({ ...e, sig: (e.sig[0] === "0" ? "1" : "0") + e.sig.slice(1) }),
  "a flipped bit of s": (e) => ({ ...e, sig: e.sig.slice(0, -1) + (e.sig.endsWith("0") ? "1" : "0") }),
  "another key's signature": (e) => ({ ...e, sig: bytesToHex(schnorr.sign(hexToBytes(e.id), sha256(utf8("another")))) }),
  "no signature": (e) => ({ ...e, sig: "0".repeat(128) }),
  "another time": (e) => ({ ...e, created_at: e.created_at - 1 }),
  "one tag more": (e) => ({ ...e, tags: [...e.tags, ["x"]] }),
};

for (const [file, claim] of Object.entries(claims)) {
  for (const [what, forged] of Object.entries(forgeries)) {
    test(`${file}.event.json with ${what}`, () => {
      const { files } = readVector("valid");
      const name = `${file}.event.json`;
      const event = parseEvent(fromUtf8(files.get(name) ?? new Uint8Array()));
      files.set(name, utf8(encodeEvent(forged(event))));
      const found = verify(files).claims.find((c) => c.name === claim);
      assert.equal(found?.state, "failed");
      assert.match(found.steps.at(-1)?.number ?? "", /^[1238]\.[23]$/);
    });
  }
}
