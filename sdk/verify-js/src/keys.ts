/** What is known of keys that ended: docs/protocol/protocol.md, Key changes. */
import { decodeNpub } from "./bech32.js";
import { UnusableError } from "./bundle.js";
import { require } from "./claim.js";
import { isKey, readFields } from "./fields.js";
import { utf8 } from "./hex.js";
import { demandDomain, eventIsSigned, parseEvent, tagsNamed, type Event } from "./nostr.js";

const kind = 7005;
const maxEventBytes = 8 << 10;
const maxLines = 512;

interface Statement {
  key: string;
  /** "" if no key follows */
  next: string;
  reason: string;
  at: number;
  /** the next key has signed too */
  accepted: boolean;
}

interface End {
  /** "" if no key follows */
  next: string;
  /** two keys were named: none follows */
  forked: boolean;
  reason: string;
  at: number;
}

/** The ends of keys that a file of events shows; keys are hex. */
export class KeyHistory {
  private readonly ends = new Map<string, End>();

  /** Reads a file, one event a line; throws an UnusableError at any other. */
  static read(text: string): KeyHistory {
    const history = new KeyHistory();
    const lines = text.split("\n");
    if (lines.at(-1) === "") lines.pop();
    if (lines.length > maxLines) throw new UnusableError(`0.1: more than ${maxLines} key changes`);
    for (const [i, line] of lines.entries()) {
      try {
        history.add(parseStatement(readEvent(line)));
      } catch (error) {
        throw new UnusableError(`0.1: line ${i + 1} of the key changes: ${(error as Error).message}`);
      }
    }
    return history;
  }

  private add(s: Statement): void {
    if (!s.accepted && s.reason === "rotated") return;
    const next = s.accepted ? s.next : "";
    const end = this.ends.get(s.key) ?? { next, forked: false, reason: s.reason, at: s.at };
    if (next !== "" && end.next !== "" && next !== end.next) end.forked = true;
    if (end.next === "") end.next = next;
    if (end.forked || s.reason === "retired") end.reason = "retired";
    end.at = Math.min(end.at, s.at);
    this.ends.set(s.key, end);
  }

  /** The time and the reason of a key's end; undefined if none is known. */
  end(key: string): { reason: string; at: number } | undefined {
    return this.ends.get(key);
  }

  /** Whether changes lead from one key to another, or to itself. */
  leads(from: string, to: string): boolean {
    for (let n = 0, key = from; n <= this.ends.size; n++) { // a circle ends
      if (key === to) return true;
      const end = this.ends.get(key);
      if (!end || end.forked || end.next === "") return false;
      key = end.next;
    }
    return false;
  }

  joins(a: string, b: string): boolean {
    return this.leads(a, b) || this.leads(b, a);
  }
}

function readEvent(text: string): Event {
  require(utf8(text).length <= maxEventBytes, `an event of more than ${maxEventBytes} bytes`);
  return parseEvent(text);
}

function parseStatement(event: Event): Statement {
  require(event.kind === kind, `kind ${event.kind}, not ${kind}`);
  const domains = tagsNamed(event, "domain");
  return domains.length === 1 && domains[0]?.[1] === "lightwork/key_acceptance/v1" ? parseAcceptance(event) : parseChange(event);
}

/** A key's own statement. */
function parseChange(event: Event): Statement {
  demandDomain(event, "key_change");
  require(eventIsSigned(event), "its id or its signature is not valid");
  const f = readFields(event.content);
  f.version();
  require(decodeNpub(f.text("key", isNpub)) === event.pubkey, "it is about another key");
  const npub = f.orNull("next_key", isNpub);
  const next = npub === null ? "" : decodeNpub(npub) ?? "";
  const reason = f.oneOf("reason", ["rotated", "retired"]);
  f.end();
  require(next !== event.pubkey, "next_key is the key itself");
  require(reason !== "rotated" || next !== "", "a rotated key names no next_key");
  demandTags(event, "p", next === "" ? [] : [next]);
  return { key: event.pubkey, next, reason, at: event.created_at, accepted: false };
}

/** The next key's event, which holds the statement. */
function parseAcceptance(event: Event): Statement {
  demandDomain(event, "key_acceptance");
  require(eventIsSigned(event), "its id or its signature is not valid");
  const statement = readEvent(event.content);
  require(statement.kind === kind, `it holds kind ${statement.kind}, not ${kind}`);
  const s = parseChange(statement);
  require(s.next === event.pubkey, "it is of another key than the statement names");
  demandTags(event, "e", [statement.id]);
  demandTags(event, "p", [statement.pubkey]);
  return { ...s, accepted: true };
}

function demandTags(event: Event, name: string, want: string[]): void {
  const got = tagsNamed(event, name).map((tag) => tag[1] ?? "");
  require(got.join() === want.join(), `its ${name} tags are not those of the change`);
}

function isNpub(text: string): boolean {
  const key = decodeNpub(text);
  return key !== undefined && isKey(key);
}
