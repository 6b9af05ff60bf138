// A wallet with the unmodified NWCWalletService. Its money is in memory: the
// invoices that it can make and those that it can pay come with WALLET, as
// JSON, because only a Lightning node could sign them.
import WebSocket from "ws";

globalThis.WebSocket ??= WebSocket; // Node.js has one from version 22
console.log = console.warn = console.error;
const { NWCWalletService, NWCWalletServiceKeyPair } = await import("@getalby/sdk/nwc");

const wallet = JSON.parse(process.env.WALLET);
let balance = wallet.balance;
const history = new Map(); // by payment hash
const now = () => Math.floor(Date.now() / 1000);
const ok = async (result) => ({ result, error: undefined });
const refuse = async (code, message) => ({ result: undefined, error: { code, message } });

const handler = {
  getInfo: () =>
    ok({
      alias: "wallet in memory", color: "", pubkey: wallet.pubkey, network: wallet.network,
      block_height: 1, block_hash: "", methods: wallet.methods, notifications: [],
    }),
  getBalance: () => ok({ balance }),
  makeInvoice: ({ amount, description_hash, expiry }) => {
    const i = wallet.stock.findIndex((s) => s.amount === amount && s.description_hash === description_hash && s.expiry === expiry);
    if (i < 0) return refuse("OTHER", "no such invoice in stock");
    const [s] = wallet.stock.splice(i, 1);
    const t = {
      type: "incoming", state: "pending", invoice: s.invoice, description_hash, payment_hash: s.payment_hash,
      amount, fees_paid: 0, created_at: now(), expires_at: now() + expiry,
    };
    history.set(s.payment_hash, t);
    return ok(t);
  },
  payInvoice: async ({ invoice }) => {
    const p = wallet.payable.find((p) => p.invoice === invoice);
    if (!p) return refuse("PAYMENT_FAILED", "no route");
    if (p.amount > balance) return refuse("INSUFFICIENT_BALANCE", "not enough");
    if (!history.has(p.payment_hash)) {
      balance -= p.amount + 1000;
      history.set(p.payment_hash, {
        type: "outgoing", state: "settled", invoice, payment_hash: p.payment_hash, preimage: p.preimage,
        amount: p.amount, fees_paid: 1000, created_at: now(), settled_at: now(),
      });
    }
    if (p.silent) return new Promise(() => {}); // paid, and the answer is lost
    return ok({ preimage: p.preimage, fees_paid: 1000 });
  },
  lookupInvoice: ({ payment_hash }) => {
    const t = history.get(payment_hash);
    return t ? ok(t) : refuse("NOT_FOUND", "unknown");
  },
  listTransactions: ({ limit, offset = 0 }) => ok({ transactions: [...history.values()].reverse().slice(offset, offset + limit) }),
};

const service = new NWCWalletService({ relayUrls: [wallet.relay] });
await service.subscribe(new NWCWalletServiceKeyPair(wallet.secret, wallet.client), handler);
await service.publishWalletServiceInfoEvent(wallet.secret, wallet.methods, []);
process.stdin.resume();
process.stdin.on("end", () => process.exit(0)); // the test is over
