package buyer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// paidOnChain reports whether a receipt names the output that our wallet paid
// with. The receipt can be here before the wallet calls the payment done: it may
// want more confirmations than the provider. An error says that the wallet does
// not tell now.
func (f *follower) paidOnChain(ctx context.Context, p Purchase, receipt nostr.Event) (bool, error) {
	if _, onChain := f.network.Chain(); !onChain {
		return false, nil
	}
	rec, err := receipts.ParseReceipt([]byte(receipt.Content))
	if err != nil {
		return false, nil
	}
	hash, err := payments.ParseHash(rec.PaymentHash)
	if err != nil {
		return false, nil
	}
	if p.Payment != nil && p.Payment.Hash == hash {
		return namesOutput(rec, *p.Payment), nil
	}
	pay, err := f.c.cfg.Wallet.LookupPayment(ctx, hash)
	switch {
	case errors.Is(err, payments.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look up what was paid on the chain: %w", err)
	}
	return namesOutput(rec, pay), nil
}

// judgeLater keeps a receipt that cannot be judged before its payment has ended.
func (f *follower) judgeLater(ev nostr.Event) {
	f.unjudged = append(f.unjudged[:min(len(f.unjudged), 4)], ev)
}

// judgeAgain takes the receipts that came while the wallet was away, or before the
// quote that they are for.
func (f *follower) judgeAgain(ctx context.Context, p Purchase) error {
	waiting := f.unjudged
	f.unjudged = nil
	for _, ev := range waiting {
		if err := f.receipt(ctx, p, ev); err != nil {
			return err
		}
	}
	return nil
}

func namesOutput(rec receipts.Receipt, pay payments.Payment) bool {
	return pay.Outpoints != "" && slices.Contains(strings.Split(rec.PaymentProof.Value, ","), pay.Outpoints)
}
