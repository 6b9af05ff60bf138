import { mintOf } from "./bolt11.js";
import { UnusableError, type Bundle } from "./bundle.js";
import { grade, type Claim, type State, type Steps } from "./claim.js";
import type { Purpose } from "./documents.js";
import { digest } from "./hex.js";
import { openEvidence, type Evidence, type Pins } from "./evidence.js";
import { proveAmount, proveCommitment, provePayee, provePreimage } from "./verify_money.js";
import { proveAccepted, proveChain, proveJob, provePolicy, proveSignature } from "./verify_record.js";
import { proveResult, proveTrajectory } from "./verify_work.js";

/** The result of a verification; its JSON is the report of lightwork-verify. */
export interface Report {
  exit_code: 0 | 1 | 3;
  receipt_id: string;
  provider_id: string;
  buyer_id: string;
  amount_msats: number;
  asset_id: string;
  mode: string;
  /** what the payment was for */
  purpose: Purpose;
  /** the place in the provider's chain, as the receipt says */
  sequence: number;
  receipt_hash: string;
  previous_receipt_hash: string | null;
  claims: Claim[];
  /** what no pin fixes */
  self_asserted: string[];
  notes: string[];
}

export interface VerifyOptions {
  pins?: Pins;
  /** claims that must be proved beside the first seven */
  require?: readonly string[];
}

const alwaysRequired = 7;
const aboutWork = ["result", "trajectory"];
const claims: [string, (e: Evidence, s: Steps) => string][] = [
  ["signature", proveSignature],
  ["job", proveJob],
  ["result", proveResult],
  ["trajectory", proveTrajectory],
  ["preimage_matches_invoice", provePreimage],
  ["amount", proveAmount],
  ["invoice_commits_to_quote", proveCommitment],
  ["buyer_accepted", proveAccepted],
  ["payee_pinned", provePayee],
  ["policy", provePolicy],
  ["chain", proveChain],
];

/** The names of all claims, in order. */
export const claimNames: readonly string[] = claims.map(([name]) => name);

/**
 * Verifies a bundle by the steps of docs/protocol/receipt.md; throws an
 * UnusableError if step 0 fails.
 */
export function verify(bundle: Bundle, options: VerifyOptions = {}): Report {
  for (const name of options.require ?? []) {
    if (!claimNames.includes(name)) throw new UnusableError(`0.1: there is no claim ${JSON.stringify(name)}`);
  }
  const evidence = openEvidence(bundle, options.pins ?? {});
  // An engagement fee has no work to prove.
  const always = claimNames.slice(0, alwaysRequired).filter((name) => evidence.receipt.purpose === "result" || !aboutWork.includes(name));
  const required = new Set([...always, ...(options.require ?? [])]);
  const graded: Claim[] = [];
  for (const [name, prove] of claims) {
    graded.push(grade(name, required.has(name), (steps) => prove(evidence, steps)));
  }
  const { receipt } = evidence;
  return {
    exit_code: exitCode(graded),
    receipt_id: receipt.receipt_id,
    provider_id: receipt.provider_id,
    buyer_id: receipt.buyer_id,
    amount_msats: receipt.amount_msats,
    asset_id: receipt.asset_id,
    mode: receipt.mode,
    purpose: receipt.purpose,
    sequence: receipt.sequence,
    receipt_hash: digest(evidence.receiptText),
    previous_receipt_hash: receipt.previous_receipt_hash,
    claims: graded,
    self_asserted: (["provider", "buyer", "payee", "network"] as const).filter((name) => evidence.pins[name] === undefined),
    notes: notesOn(evidence),
  };
}

function exitCode(graded: Claim[]): 0 | 1 | 3 {
  const has = (state: State, only: (c: Claim) => boolean) => graded.some((c) => c.state === state && only(c));
  if (has("failed", () => true)) return 1;
  return has("not provable", (c) => c.required) ? 3 : 0;
}

function notesOn(e: Evidence): string[] {
  const notes: string[] = [];
  if (e.receipt.mode === "postpay") notes.push("postpay: the work was done before it was paid");
  if (e.receipt.purpose === "engagement") notes.push("engagement fee: the payment was for the attempt, not for a result");
  if (e.receipt.rail === "cashu") {
    notes.push("cashu: the money is the promise of a mint, and only the mint's word says that its notes were good and are spent");
  } else if (e.receipt.rail === "onchain") {
    notes.push("onchain: nothing offline shows whether the outputs were paid, when, and that they still are; the chain does");
  }
  if (!(e.invoice instanceof Error) && e.invoice.network !== "mainnet" && mintOf(e.invoice.network) === undefined) {
    notes.push(`the invoice is of the network ${e.invoice.network}: what was paid is worth nothing`);
  }
  notes.push("what is self-asserted is fixed by nothing outside the bundle: one person can hold all its keys");
  notes.push("a preimage shows that the invoice's secret is out, not who paid; parties in collusion can make a receipt for nothing");
  return notes;
}
