package buyer

import (
	"context"
	"slices"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// paidOnChain reports whether a receipt names the output that our wallet paid
// with. The receipt can be here before the wallet calls the payment done: it may
// want more confirmations than the provider.
func (f *follower) paidOnChain(ctx context.Context, receipt nostr.Event) bool {
	if _, onChain := f.network.Chain(); !onChain {
		return false
	}
	rec, err := receipts.ParseReceipt([]byte(receipt.Content))
	if err != nil {
		return false
	}
	hash, err := payments.ParseHash(rec.PaymentHash)
	if err != nil {
		return false
	}
	pay, err := f.c.cfg.Wallet.LookupPayment(ctx, hash)
	if err != nil {
		f.c.log.Warn("look up what was paid on the chain", "payment_hash", hash, "err", err)
		return false
	}
	return pay.Outpoints != "" && slices.Contains(strings.Split(rec.PaymentProof.Value, ","), pay.Outpoints)
}
