/**
 * The terms in a request's tags. Each may occur at most once, and a number has
 * one spelling.
 */
import { require } from "./claim.js";
import { isHex } from "./hex.js";
import { demandDomain, tagsNamed, type Event } from "./nostr.js";

export interface Terms {
  /** the most the buyer pays, in msats */
  bid?: number;
  mode?: string;
}

const terms = ["payment_mode", "delivery", "agreement", "refund"];

/** Throws, with the name of the tag, if the tags are ambiguous. */
export function readTerms(event: Event): Terms {
  demandDomain(event, "request", true);
  for (const [, key = ""] of tagsNamed(event, "p")) require(isHex(key, 32), "a tag p is no key of 64 lower-case hex digits");
  const bids = tagsNamed(event, "bid");
  require(bids.length <= 1, "the tag bid is there twice");
  const read: Terms = {};
  if (bids[0]) read.bid = amountOf(bids[0][1]);
  for (const name of terms) {
    const found = tagsNamed(event, "param").filter((tag) => tag[1] === name);
    require(found.length <= 1, `the tag param ${name} is there twice`);
    const value = found[0]?.[2];
    require(found.length === 0 || (value !== undefined && value !== ""), `the tag param ${name} has no value`);
    if (name === "payment_mode" && value !== undefined) read.mode = value;
  }
  return read;
}

function amountOf(text = ""): number {
  const amount = /^(?:0|[1-9][0-9]{0,15})$/.test(text) ? Number(text) : NaN;
  require(Number.isSafeInteger(amount), "the tag bid is no whole number up to 2^53-1, without sign and leading zeros");
  return amount;
}
