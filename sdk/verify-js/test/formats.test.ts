/** The codecs below the verification, each against what its specification refuses. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { writeTar } from "../fuzz/tar.js";
import { readVector } from "../fuzz/vectors.js";
import { decodeNpub, encodeBech32 } from "../src/bech32.js";
import { decodeInvoice } from "../src/bolt11.js";
import { utf8 } from "../src/hex.js";
import { readTar, UnusableError } from "../src/index.js";
import { canonical, parseCanonical, parseJson } from "../src/json.js";
import { parseEvent } from "../src/nostr.js";
import { parseReplay } from "../src/replay.js";

const text = (name: string) => new TextDecoder().decode(readVector("valid").files.get(name));

test("JSON that means two things is refused", () => {
  for (const doc of [
    '{"a":1,"a":1}', '{"a":1,"\\u0061":1}', "9007199254740992", "-9007199254740992", "9007199254740993.0", "1e400", "01", "1.", ".5", "+1", "NaN",
    '"\\ud800"', '"\\udc00\\ud800"', '"\u0001"', "[1,]", "{,}", "[1 2]", "1 2", "", '{"a"}', "nul", "'a'", '"a', "\ufeff1", "\u00a01", "[".repeat(129) + "]".repeat(129),
  ]) {
    assert.throws(() => parseJson(doc), doc);
  }
});

test("RFC 8785", () => {
  for (const [doc, want] of [
    ['{ "b" : 1, "a" : [ true, null ] }', '{"a":[true,null],"b":1}'],
    ['{"\ufb33":1,"\ud83d\ude00":2,"a":3}', '{"a":3,"\ud83d\ude00":2,"\ufb33":1}'], // UTF-16 code units, not code points
    ["[1.0,1e2,-0,1e21,0.000001,1e-7,4.50]", "[1,100,0,1e+21,0.000001,1e-7,4.5]"],
    ['"\\u20ac\\/\\u0007\\n\u007f"', '"€/\\u0007\\n\u007f"'],
    ['{"__proto__":1,"toString":2}', '{"__proto__":1,"toString":2}'],
  ] as const) {
    assert.equal(canonical(parseJson(doc)), want);
    assert.equal(canonical(parseCanonical(want)), want);
    assert.throws(() => parseCanonical(` ${want}`));
  }
});

test("an event has one form", () => {
  const event = text("REQUEST.event.json");
  assert.equal(parseEvent(event).kind, 5050);
  for (const other of [` ${event}`, `${event}\n`, event.replace('"kind":5050,', '"kind":5050.0,'), event.replace("{", '{"x":1,'), event.toUpperCase()]) {
    assert.throws(() => parseEvent(other));
  }
});

test("an invoice of BOLT 11's own examples", () => {
  const invoice = decodeInvoice(
    "lnbc20m1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqhp58yjmdan79s6qqdhdzgynm4zwqd5d7" +
      "xmw5fk98klysy043l2ahrqs9qrsgq7ea976txfraylvgzuxs8kgcw23ezlrszfnh8r6qtfpr6cxga50aj6txm9rxrydzd06dfeawfk6swupvz4erwnyutnjq7x39ymw6j38gp7ynn44",
  );
  assert.equal(invoice.network, "mainnet");
  assert.equal(invoice.msats, 2_000_000_000);
  assert.equal(invoice.paymentHash, "0001020304050607080900010203040506070809000102030405060708090102");
  assert.equal(invoice.descriptionHash, "3925b6f67e2c340036ed12093dd44e0368df1b6ea26c53dbe4811f58fd5db8c1");
  assert.equal(invoice.payee, "03e7156ae33b0a208d0744199163177e909e80176e55d97a2f221ede0f934dd9ad");
});

test("an npub has one spelling", () => {
  const npub = "npub1sunusstu74ll72fjfwqlv4cn9lcyte2fytylgjxhaj8yqekzashqtjvsn5";
  assert.equal(decodeNpub(npub), "8727c8417cf57fff29324b81f657132ff045e54922c9f448d7ec8e4066c2ec2e");
  for (const other of [npub.toUpperCase(), npub.slice(0, -1), `${npub}q`, npub.replace("sunu", "snuu"), encodeBech32("npub", [1, 2, 3])]) {
    assert.equal(decodeNpub(other), undefined);
  }
});

test("a record that was cut, reordered or doctored is refused", () => {
  const replay = text("REPLAY.jsonl");
  const lines = replay.trimEnd().split("\n");
  assert.equal(parseReplay(replay).toolCalls, 2);
  const written = (changed: string[]) => changed.map((line) => `${line}\n`).join("");
  lines.forEach((_, i) => {
    if (!/"(?:Payment|StepComplete|PlanStart)"/.test(lines[i] ?? "")) assert.throws(() => parseReplay(written(lines.toSpliced(i, 1))), lines[i]);
  });
  for (const other of [
    replay.trimEnd(), `${replay}\n`, "", "\n", written(lines.toReversed()), replay.replace('"what":"repo"', '"what":"x"'), replay.replace(/"params":\{[^}]*\},/, ""),
    replay.replace("2026-01-01", "2026-02-30"), replay.replace('"total_tool_calls":2', '"total_tool_calls":3'), replay.replace('"confidence":1', '"confidence":2'),
  ]) {
    assert.throws(() => parseReplay(other));
  }
});

test("tar archives", () => {
  const { files } = readVector("valid");
  const archive = writeTar(files);
  assert.deepEqual([...readTar(archive).keys()], [...files.keys()]);
  const inFolder = writeTar(new Map([...files].map(([name, data]) => [`./receipt-1/${name}`, data])));
  assert.deepEqual([...readTar(inFolder).keys()], [...files.keys()]);
  const link = archive.slice();
  link[156] = "2".charCodeAt(0);
  link.set(utf8(` ${(link.subarray(0, 512).reduce((sum, byte, i) => sum + (i >= 148 && i < 156 ? 32 : byte), 0)).toString(8)}\0 `), 148);
  const damaged = archive.slice();
  damaged[0] = 0x41;
  const behind = Uint8Array.from([...archive, 1]);
  const other = (name: string) => writeTar(new Map([...files, [name, utf8("x")]]));
  for (const bad of [link, damaged, behind, archive.slice(0, 700), other("x"), other("../RECEIPT.json"), other("artifacts/x"), other("a/RECEIPT.json"), other("artifacts/")]) {
    assert.throws(() => readTar(bad), UnusableError);
  }
});
