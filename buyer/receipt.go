package buyer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// receipt verifies the whole bundle of a charge as a stranger would, and keeps the
// receipt only then.
func (f *follower) receipt(ctx context.Context, p view, ev nostr.Event) error {
	purpose := paidFor(ev)
	switch charge := p.ChargeFor(purpose); {
	case charge != nil && charge.ReceiptID != "":
		return nil
	case charge == nil, charge.Quote == nil && !p.Plain: // relays keep no order: what it is a receipt of comes yet
		f.judgeLater(ev)
		return nil
	}

	raw, err := ev.MarshalJSON()
	if err != nil {
		return err
	}

	b, what, err := f.c.bundleWith(ctx, p.Purchase, purpose, raw)
	if err != nil {
		return f.reject(ev, err)
	}
	report := receipts.Verify(b, receipts.Pins{Provider: p.Provider, Buyer: f.c.key, Payee: p.PayeeNode, Network: f.network})
	onChain := false
	if purpose == receipts.PurposeResult { // no fee is paid on the chain
		if onChain, err = f.paidOnChain(ctx, p.Purchase, ev); err != nil { // judged once the payment is known to have ended
			f.c.log.Warn("a receipt waits for the wallet", "request", f.id, "event", ev.ID, "err", err)
			f.judgeLater(ev)
			return nil
		}
	}

	if bad := failedClaims(p.Purchase, report, onChain); bad != "" {
		return f.reject(ev, purchase.Mismatch(what, bad))
	}

	if err := f.c.cfg.Store.SetReceipt(ctx, f.id, purpose, report.ReceiptID, raw); err != nil {
		return fmt.Errorf("store %s: %w", what, err)
	}

	told := report.ReceiptID
	if purpose == receipts.PurposeEngagement {
		told += " (engagement fee)"
	}
	f.say("provider", "receipt", 0, ev.ID, told)
	return nil
}

// bundleWith is the bundle of a charge with a receipt that is not stored, and what
// such a receipt is called.
func (c *Client) bundleWith(ctx context.Context, p Purchase, purpose receipts.Purpose, receipt []byte) (b *receipts.Bundle, what string, err error) {
	if purpose != receipts.PurposeEngagement {
		p.ReceiptEvent = receipt
		b, err = BundleOf(ctx, c.cfg.Store, p)
		return b, "receipt", err
	}

	fee := *p.Engagement // p's own is shared with others
	fee.ReceiptEvent = receipt
	p.Engagement = &fee
	b, err = EngagementBundleOf(ctx, c.cfg.Store, p)
	return b, "receipt of the engagement fee", err
}

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
	f.pendingVerdict = append(f.pendingVerdict[:min(len(f.pendingVerdict), 4)], ev)
}

// judgeAgain takes the receipts that came while the wallet was away, or before the
// quote that they are for.
func (f *follower) judgeAgain(ctx context.Context, p view) error {
	waiting := f.pendingVerdict
	f.pendingVerdict = nil
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

// failedClaims lists what a verification of our own bundle did not prove of
// what it requires.
func failedClaims(p Purchase, r receipts.Report, paidOnChain bool) string {
	var bad []string
	for _, c := range r.Claims {
		if p.Hidden != nil && c.State == receipts.NotProvable && (c.Name == receipts.ClaimJob || c.Name == receipts.ClaimResult) {
			continue // to strangers; we know what we asked, and have held the result against it
		}
		if c.Name == receipts.ClaimPreimage && c.State == receipts.NotProvable && paidOnChain {
			continue // to strangers; it names the transaction that we sent
		}
		if c.State == receipts.Failed || c.Required && c.State != receipts.Proved {
			bad = append(bad, c.Name+": "+c.Reason)
		}
	}

	return strings.Join(bad, "; ")
}
