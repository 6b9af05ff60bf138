// A wallet of play money with the unmodified NWCWalletService: it chooses the
// preimages of its invoices, and cancels and holds none. Arguments: the relay, the
// ledger, and the file that the address for the one application goes into.
import { createHash, randomBytes } from "node:crypto";
import { renameSync, writeFileSync } from "node:fs";
import WebSocket from "ws";

globalThis.WebSocket ??= WebSocket; // Node.js has one from version 22
console.log = console.warn = console.error;
const { NWCWalletService, NWCWalletServiceKeyPair } = await import("@getalby/sdk/nwc");
const { generateSecretKey, getPublicKey } = await import("nostr-tools");

const [relay, ledger, file] = process.argv.slice(2);
const token = randomBytes(32).toString("hex");

async function ask(method, body) {
  const answer = await fetch(`${ledger}/v1/${method}`, {
    method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
  });
  const doc = await answer.json();
  if (!answer.ok) throw new Error(`${method}: ${doc.code}`);
  return doc;
}

await ask("OpenWallet", { name: `sdk-${token.slice(0, 8)}`, token });
const node = await ask("Node", {});
const methods = ["get_info", "make_invoice", "lookup_invoice", "list_transactions"];
const made = new Map(); // by payment hash
const states = { open: "pending", settled: "settled", canceled: "expired" };
const seconds = (time) => Math.floor(Date.parse(time) / 1000);

// transaction is how an invoice stands now; the preimage is shown once it is paid.
async function transaction({ preimage, ...known }) {
  const now = await ask("LookupInvoice", { payment_hash: known.payment_hash });
  const paid = now.state === "settled" && { preimage, settled_at: seconds(now.settled_at) };
  return { ...known, state: states[now.state], ...paid };
}

const answer = (handle) => async (params) => {
  try {
    return { result: await handle(params), error: undefined };
  } catch (e) {
    return { result: undefined, error: { code: e.code ?? "INTERNAL", message: e.message } };
  }
};

const handler = {
  getInfo: answer(() => ({
    alias: "play", color: "", pubkey: node.pub_key, network: node.network, block_height: 1, block_hash: "", methods, notifications: [],
  })),
  makeInvoice: answer(async ({ amount, description_hash, expiry }) => {
    const preimage = randomBytes(32);
    const payment_hash = createHash("sha256").update(preimage).digest("hex");
    const invoice = await ask("CreateInvoice", {
      preimage: preimage.toString("hex"), payment_hash, hold: false, amount_msats: amount, description_hash: `sha256:${description_hash}`, expiry_s: expiry,
    });
    const created_at = Math.floor(Date.now() / 1000);
    made.set(payment_hash, {
      type: "incoming", invoice: invoice.bolt11, description_hash, payment_hash, amount, fees_paid: 0, created_at, expires_at: created_at + expiry,
      preimage: preimage.toString("hex"),
    });
    return transaction(made.get(payment_hash));
  }),
  lookupInvoice: answer(({ payment_hash }) => {
    const known = made.get(payment_hash);
    if (!known) throw Object.assign(new Error("unknown"), { code: "NOT_FOUND" });
    return transaction(known);
  }),
  listTransactions: answer(async ({ limit, offset = 0 }) => ({
    transactions: await Promise.all([...made.values()].reverse().slice(offset, offset + limit).map(transaction)),
  })),
};

const hex = (key) => Buffer.from(key).toString("hex");
const [wallet, client] = [generateSecretKey(), generateSecretKey()];
const service = new NWCWalletService({ relayUrls: [relay] });
await service.subscribe(new NWCWalletServiceKeyPair(hex(wallet), getPublicKey(client)), handler);
await service.publishWalletServiceInfoEvent(hex(wallet), methods, []);
const address = `nostr+walletconnect://${getPublicKey(wallet)}?relay=${encodeURIComponent(relay)}&secret=${hex(client)}\n`;
writeFileSync(`${file}.new`, address, { mode: 0o600 });
renameSync(`${file}.new`, file);
process.on("SIGINT", () => process.exit(0));
