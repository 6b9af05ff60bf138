package proof

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/profile"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// Store has what proves purchases, and keeps receipts.
type Store interface {
	Evidence
	// SetReceipt keeps the receipt event of the charge for a purpose; the first stays.
	// [purchase.ErrConflict] for an engagement fee that was not accepted.
	SetReceipt(ctx context.Context, requestID string, purpose receipts.Purpose, receiptID string, event []byte) error
}

// Judge takes the receipts of one purchase.
type Judge struct {
	Store   Store
	Buyer   string // x-only hex
	Network payments.Network
	// Payment asks our wallet for what it paid.
	Payment func(ctx context.Context, hash payments.Hash) (payments.Payment, error)
	Log     *slog.Logger

	early   []nostr.Event // came before their result
	pending []nostr.Event // came while the wallet was away, or before their quote
}

// waitingMax bounds the receipts of either kind that wait.
const waitingMax = 5

// PurposeOf is what an event is the receipt of: the result, where it cannot be read.
func PurposeOf(ev nostr.Event) receipts.Purpose {
	r, err := receipts.ParseReceipt([]byte(ev.Content))
	if err != nil {
		return receipts.PurposeResult
	}
	return r.PaidFor()
}

// Early keeps a receipt until its result is here.
func (j *Judge) Early(ev nostr.Event) {
	j.early = append(j.early[:min(len(j.early), waitingMax-1)], ev)
}

// OfResult are the receipts that came before the result.
func (j *Judge) OfResult() []nostr.Event { return slices.Clone(j.early) }

// Pending takes out the receipts that could not be judged when they came.
func (j *Judge) Pending() []nostr.Event {
	waiting := j.pending
	j.pending = nil
	return waiting
}

// later keeps a receipt that cannot be judged before its payment has ended.
func (j *Judge) later(ev nostr.Event) {
	j.pending = append(j.pending[:min(len(j.pending), waitingMax-1)], ev)
}

// Take verifies the whole bundle of a charge as a stranger would, and keeps the receipt
// only then. It returns the receipt's id as people are told it; "" if it was known, or
// cannot be judged yet. refused says what is wrong with a receipt that is not taken.
func (j *Judge) Take(ctx context.Context, p purchase.View, ev nostr.Event) (told string, refused, err error) {
	purpose := PurposeOf(ev)
	switch charge := p.ChargeFor(purpose); {
	case charge != nil && charge.ReceiptID != "":
		return "", nil, nil
	case charge == nil, !profile.Of(p.Purchase).Receipts(*charge):
		j.later(ev)
		return "", nil, nil
	}

	raw, err := ev.MarshalJSON()
	if err != nil {
		return "", nil, err
	}
	b, what, err := j.bundleWith(ctx, p.Purchase, purpose, raw)
	if err != nil {
		return "", err, nil
	}

	report := receipts.Verify(b, receipts.Pins{Provider: p.Provider, Buyer: j.Buyer, Payee: p.PayeeNode, Network: j.Network})
	onChain := false
	if purpose == receipts.PurposeResult { // no fee is paid on the chain
		if onChain, err = j.paidOnChain(ctx, p.Purchase, ev); err != nil { // judged once the payment is known to have ended
			j.Log.Warn("a receipt waits for the wallet", "request", p.RequestID, "event", ev.ID, "err", err)
			j.later(ev)
			return "", nil, nil
		}
	}
	if bad := failedClaims(p.Purchase, report, onChain); bad != "" {
		return "", purchase.Mismatch(what, bad), nil
	}

	if err := j.Store.SetReceipt(ctx, p.RequestID, purpose, report.ReceiptID, raw); err != nil {
		return "", nil, fmt.Errorf("store %s: %w", what, err)
	}
	told = report.ReceiptID
	if purpose == receipts.PurposeEngagement {
		told += " (engagement fee)"
	}
	return told, nil, nil
}

// bundleWith is the bundle of a charge with a receipt that is not stored, and what
// such a receipt is called.
func (j *Judge) bundleWith(ctx context.Context, p purchase.Purchase, purpose receipts.Purpose, receipt []byte) (b *receipts.Bundle, what string, err error) {
	if purpose != receipts.PurposeEngagement {
		p.ReceiptEvent = receipt
		b, err = Bundle(ctx, j.Store, p)
		return b, "receipt", err
	}

	fee := *p.Engagement // p's own is shared with others
	fee.ReceiptEvent = receipt
	p.Engagement = &fee
	b, err = EngagementBundle(ctx, j.Store, p)
	return b, "receipt of the engagement fee", err
}

// paidOnChain reports whether a receipt names the output that our wallet paid
// with. The receipt can be here before the wallet calls the payment done: it may
// want more confirmations than the provider. An error says that the wallet does
// not tell now.
func (j *Judge) paidOnChain(ctx context.Context, p purchase.Purchase, receipt nostr.Event) (bool, error) {
	if j.Network.Rail() != payments.RailOnChain {
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

	pay, err := j.Payment(ctx, hash)
	switch {
	case errors.Is(err, payments.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look up what was paid on the chain: %w", err)
	}

	return namesOutput(rec, pay), nil
}

func namesOutput(rec receipts.Receipt, pay payments.Payment) bool {
	return pay.Outpoints != "" && slices.Contains(strings.Split(rec.PaymentProof.Value, ","), pay.Outpoints)
}

// failedClaims lists what a verification of our own bundle did not prove of
// what it requires.
func failedClaims(p purchase.Purchase, r receipts.Report, paidOnChain bool) string {
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
