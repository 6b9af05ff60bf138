/**
 * Inputs of a request that are other events: they are replaced by the texts of
 * INPUTS.jsonl.
 */
import { Lacking, require } from "./claim.js";
import { namedQuote, type Evidence } from "./evidence.js";
import { fromUtf8, isHex } from "./hex.js";
import { eventIsSigned, parseEvent, tagsNamed, type Event } from "./nostr.js";

const maxReferences = 4;
const maxInputBytes = 64 << 10;
/** Kinds that are meant for one reader. */
const privateKinds = [4, 13, 14, 15, 1059, 1060, 21059];

function isReference(tag: string[]): boolean {
  return tag.length >= 3 && tag[0] === "i" && (tag[2] === "job" || tag[2] === "event");
}

/** Returns the request with text in place of event ids. Throws if that is impossible. */
export function inlined(e: Evidence, event: Event): Event {
  if (tagsNamed(event, "encrypted").length > 0) return event;
  const references = event.tags.filter(isReference);
  require(references.length <= maxReferences, "too many inputs are somewhere else");
  for (const tag of references) {
    require(isHex(tag[1] ?? "", 32), "an input names no event id");
    const author = tag[2] === "job" ? (tag[4] ?? "") : "";
    require(author === "" || isHex(author, 32), "an input names a provider that is no key");
  }
  const file = e.bundle.get("INPUTS.jsonl");
  if (!file && references.length > 0) throw new Lacking("its inputs are in other events, and INPUTS.jsonl is not in the bundle");
  const events = file ? parseInputs(fromUtf8(file)) : [];
  const ids = events.map((input) => input.id);
  require(events.length === references.length, "INPUTS.jsonl has not the inputs that it names");
  const tags = event.tags.map((tag) => {
    if (!isReference(tag)) return tag;
    const input = events.shift() as Event;
    require(isNamed(e, tag, input), "an event is not the input that it names");
    return ["i", textOf(input), "text"];
  });
  checkQuoted(e, ids);
  return { ...event, tags };
}

/**
 * The quote named by the receipt says which events were used: a request can
 * refer to several.
 */
function checkQuoted(e: Evidence, ids: string[]): void {
  const quote = namedQuote(e);
  if (quote) return require(quote.inputs.join() === ids.join(), "the quote names other inputs");
  if (ids.length > 0) throw new Lacking("its inputs are in other events, and the quote that the receipt names is not there");
}

function parseInputs(text: string): Event[] {
  const lines = text.split("\n");
  require(lines.pop() === "" && lines.length <= maxReferences, "INPUTS.jsonl is not 1 to 4 lines");
  const events = lines.map(parseEvent);
  require(events.every(eventIsSigned), "an input has a false id or signature");
  return events;
}

function isNamed(e: Evidence, [, id = "", type, , provider = ""]: string[], event: Event): boolean {
  if (type === "event") return event.id === id;
  const author = provider === "" ? e.receipt.provider : provider;
  return event.pubkey === author && event.kind >= 6000 && event.kind <= 6999 && tagsNamed(event, "e").some((tag) => tag[1] === id);
}

function textOf(event: Event): string {
  const bound = ["encrypted", "-", "commitment"].some((name) => tagsNamed(event, name).length > 0);
  require(!bound && !privateKinds.includes(event.kind), "an input is not for everybody to read");
  require(event.content !== "" && new TextEncoder().encode(event.content).length <= maxInputBytes, "an input has no content, or too much");
  return event.content;
}
