/**
 * Claims about the money: the proof, the amount, the quote behind the invoice,
 * and the payee.
 */
import { chainOf, mintOf, onChain, type Invoice, type Network } from "./bolt11.js";
import { Lacking, require, type Steps } from "./claim.js";
import { parseQuote, type Quote, type Receipt } from "./documents.js";
import { eventSteps, invoiceStep, namedQuote, textOf, type Evidence } from "./evidence.js";
import { digest, hashHex, hexToBytes, isHex } from "./hex.js";
import { onlyTag, tagsNamed, type Event } from "./nostr.js";

export function provePreimage(e: Evidence, s: Steps): string {
  const { payment_proof: proof, payment_hash } = e.receipt;
  const type = proofs[railOf(e)];
  s.demand("5.1", "the proof is the rail's: lightning_preimage, cashu_proof or onchain_txid", proof.type === type, `it is of type ${proof.type}`);
  if (type === "onchain_txid") {
    return proveOutputs(e, s);
  }
  s.demand("5.2", "it is 32 bytes and not all zero", isHex(proof.value, 32) && !/^0*$/.test(proof.value), "it is not");
  s.demand("5.3", "its SHA-256 is payment_hash", hashHex(hexToBytes(proof.value)) === payment_hash, "it is another");
  const invoice = invoiceStep(s, "5.4", e);
  s.demand("5.5", "payment_hash is the invoice's", invoice.paymentHash === payment_hash, "it is another");
  return "the preimage opens the invoice's payment hash";
}

const proofs = { lightning: "lightning_preimage", cashu: "cashu_proof", onchain: "onchain_txid" };

/** An on-chain payment: the receipt can only say where to look. */
function proveOutputs(e: Evidence, s: Steps): string {
  const { payment_proof: proof, payment_hash, mode } = e.receipt;
  s.demand("5.2", "it names outputs of transactions", areOutpoints(proof.value), "it does not");
  s.demand("5.3", "the job was paid beforehand: nothing on the chain is held", mode === "prepay", `mode ${mode}`);
  const invoice = invoiceStep(s, "5.4", e);
  s.demand("5.5", "payment_hash is the invoice's", invoice.paymentHash === payment_hash, "it is another");
  s.step("5.6", "the outputs pay the invoice's address, and are confirmed", () => {
    throw new Lacking("only the chain shows it: ask a node of yours");
  });
  return "";
}

const maxOutpoints = 16;
const maxIndex = 0xffff_ffff;

/** "txid:index" of each output, sorted as text and separated by commas. */
function areOutpoints(value: string): boolean {
  const list = value.split(",");
  return list.length <= maxOutpoints && list.every((o, i) => {
    const index = /^[0-9a-f]{64}:(0|[1-9][0-9]{0,9})$/.exec(o)?.[1];
    return index !== undefined && Number(index) <= maxIndex && (i === 0 || (list[i - 1] ?? "") < o);
  });
}

/**
 * The rail of the payment: on-chain if the receipt says so and the invoice
 * names an address.
 */
function networkOf(invoice: Invoice, receipt: Receipt): Network {
  return (receipt.rail === "onchain" && invoice.namesAddress && onChain(invoice.network)) || invoice.network;
}

/** Lightning if the invoice does not decode. */
function railOf(e: Evidence): keyof typeof proofs {
  if (e.invoice instanceof Error) return "lightning";
  const network = networkOf(e.invoice, e.receipt);
  if (chainOf(network) !== undefined) return "onchain";
  return mintOf(network) !== undefined ? "cashu" : "lightning";
}

function assetOf(network: Network): string {
  const chain = chainOf(network);
  if (chain !== undefined) return chain === "mainnet" ? "BTC_CHAIN" : `BTC_CHAIN(${chain})`;
  const mint = mintOf(network);
  if (mint !== undefined) return `BTC_CASHU(${mint})`;
  if (network === "play") return "PLAY_LN";
  return network === "mainnet" ? "BTC_LN" : `BTC_LN(${network})`;
}

export function proveAmount(e: Evidence, s: Steps): string {
  const { receipt, pins } = e;
  const invoice = invoiceStep(s, "6.1", e);
  const network = networkOf(invoice, receipt);
  s.demand("6.2", "the rail is that of the invoice's network, or onchain where it names one address", receipt.rail === railOf(e), `it is ${receipt.rail}`);
  s.demand("6.3", "asset_id is that of the invoice's network", receipt.asset_id === assetOf(network), `the invoice is of ${invoice.network}`);
  s.demand("6.4", "amount_msats is the invoice's", receipt.amount_msats === invoice.msats, `the invoice is over ${invoice.msats ?? "no amount"}`);
  s.step("6.5", "amount_msats is the quote's price", () => {
    const quote = namedQuote(e);
    if (!quote) throw new Lacking("the quote that the receipt names is not there");
    require(quote.price_msats === receipt.amount_msats, `the quote's price is ${quote.price_msats}`);
  });
  if (pins.network) s.demand("6.6", "the network is the pinned one", pins.network === network, `it is ${network}`);
  return `${receipt.amount_msats} msats of ${receipt.asset_id} in invoice, quote and receipt`;
}

export function proveCommitment(e: Evidence, s: Steps): string {
  const { receipt } = e;
  const invoice = invoiceStep(s, "7.1", e);
  const commits = `sha256:${invoice.descriptionHash}` === receipt.quote_hash;
  s.demand("7.2", "the invoice's description_hash is quote_hash", commits, "it is another, or there is none");
  const quote = s.step("7.3", "QUOTE.json is in the bundle, and a valid quote", () => parseQuote(textOf(e, "QUOTE.json")));
  if (quote) {
    s.demand("7.4", "its hash is quote_hash", digest(textOf(e, "QUOTE.json")) === receipt.quote_hash, "it is another");
    s.step("7.5", "it offers this job, to this buyer, on these terms", () => checkTerms(quote, receipt));
    s.step("7.6", "it names payment_hash, or none and QUOTE.event.json names the invoice", () => {
      if (quote.payment_hash !== null) return require(quote.payment_hash === receipt.payment_hash, "it names another");
      if (!e.bundle.has("QUOTE.event.json")) {
        throw new Lacking("it names none, since the wallet chose the preimage later, and QUOTE.event.json, which names the invoice, is not there");
      }
    });
  }
  if (receipt.purpose === "engagement" || e.bundle.has("QUOTE.event.json")) {
    const event = eventSteps(s, ["7.7", "7.8"], e, "QUOTE.event.json", "quote");
    if (event) s.step("7.9", "the provider asks in it for this price, by this quote and this invoice", () => checkDemand(event, receipt));
  }
  const proved = "the invoice's description hash is the hash of the quote, which names this job, both parties and the price";
  return quote?.payment_hash === null ? `${proved}; ${noHashNote}` : proved;
}

const noHashNote = "weaker, as the quote names no payment hash: that the provider asked for it by no other invoice is not shown";

/**
 * A result event names the quote. For a fee, only this event besides the
 * receipt shows that the invoice was the provider's.
 */
function checkDemand(event: Event, receipt: Receipt): void {
  require(event.pubkey === receipt.provider, "it is of another provider");
  require(digest(event.content) === receipt.quote_hash, "its content is another quote");
  require(onlyTag(event, "e") === receipt.request_event_id, "it is for another request");
  require(onlyTag(event, "p") === receipt.buyer, "it asks another buyer");
  require(onlyTag(event, "status") === "payment-required", "its status is another");
  require(onlyTag(event, "amount") === String(receipt.amount_msats), "it asks for another price");
  const [amount = []] = tagsNamed(event, "amount");
  require(amount.length === 3 && amount[2] === receipt.bolt11, "its tag amount names another invoice, or none");
}

function checkTerms(quote: Quote, receipt: Receipt): void {
  require(quote.request_id === receipt.request_event_id, "it is for another request");
  require(quote.job_hash === receipt.job_hash, "it is for another job");
  require(quote.schema_id === receipt.schema_id, "it is for another job type");
  require(quote.buyer === receipt.buyer, "it is for another buyer");
  require(quote.provider === receipt.provider, "it is of another provider");
  require(quote.policy_bundle_id === receipt.policy_bundle_id, "it names another policy");
  require(quote.purpose === receipt.purpose, `its purpose is ${quote.purpose}`);
  require(quote.mode === receipt.mode, `its mode is ${quote.mode}`);
  require(quote.delivery === receipt.delivery, `its delivery is ${quote.delivery}`);
  require(quote.price_msats === receipt.amount_msats, `its price is ${quote.price_msats}`);
  require(quote.payee_node === null || quote.payee_node === receipt.payee_node, "it names another payee");
}

export function provePayee(e: Evidence, s: Steps): string {
  const { receipt, pins } = e;
  const invoice = invoiceStep(s, "9.1", e);
  s.demand("9.2", "payee_node is the key that signed the invoice", receipt.payee_node === invoice.payee, `that is ${invoice.payee}`);
  const named = namedQuote(e)?.payee_node ?? receipt.payee_node;
  s.demand("9.3", "the quote names this node, or none", named === receipt.payee_node, `it names ${named}`);
  s.step("9.4", "the payee is the pinned one", () => {
    if (!pins.payee) throw new Lacking("no payee is pinned, and any signature gives some key");
    require(pins.payee === receipt.payee_node, "it is another");
  });
  return "the invoice is of the pinned node";
}
