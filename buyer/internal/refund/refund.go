// Package refund looks after what should come back of a purchase that failed: it names
// where to, watches our wallet for it, and notes what a provider says that it owes.
package refund

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/payments/destination"
	"github.com/lightwork-market/lightwork/receipts"
)

// Receiver is the wallet's side that refunds come to.
type Receiver interface {
	CreateInvoice(ctx context.Context, in payments.NewInvoice) (payments.Invoice, error)
	LookupInvoice(ctx context.Context, hash payments.Hash) (payments.Invoice, error)
}

// ChainReceiver is the same on the chain, where the address is the name of what
// comes to it.
type ChainReceiver interface {
	RefundAddress(ctx context.Context) (string, error)
	Refunded(ctx context.Context, address string) (payments.Invoice, error)
}

// Store keeps what came back. Every method that changes anything is one durable
// transaction.
type Store interface {
	Purchase(ctx context.Context, requestID string) (purchase.Purchase, error)
	// SetRefund records that msats of a failed prepayment came back; the first
	// stays. The budget of the day is not given them back.
	// [purchase.ErrRefundOfAnother] if another purchase with the same target of a
	// refund has its refund already.
	SetRefund(ctx context.Context, requestID string, msats int64) error
	// SetCredit keeps what the provider said that it owes of the purchase, or that
	// its quote is lowered by, in msats above 0; the first of each stays.
	SetCredit(ctx context.Context, requestID string, way purchase.CreditWay, msats int64) error
}

// Desk takes refunds.
type Desk struct {
	Receiver Receiver      // nil: our wallet names nothing that a refund could go to
	Chain    ChainReceiver // the same where money moves on the chain; Receiver is nil then
	// Node says who our wallet is; nil without one.
	Node  func(ctx context.Context) (payments.Node, error)
	Store Store
	Log   *slog.Logger
	// Timeout is how long a refund is waited for.
	Timeout time.Duration
}

const (
	// refundExpiry is how long a provider has to pay a refund.
	refundExpiry = 7 * 24 * time.Hour
	refundPoll   = 500 * time.Millisecond
)

// Tags name in a request where a failed prepayment is to go: to, which must be something
// that a provider can pay, or where it is empty and the job may be prepaid, an invoice
// of our own wallet for the price.
func (d *Desk) Tags(ctx context.Context, to string, mayPrepay bool, msats int64) (nostr.Tags, error) {
	switch {
	case to != "":
		network, err := d.network(ctx, to)
		if err == nil {
			err = d.Check(to, network)
		}
		if err != nil {
			return nil, fmt.Errorf("refund: %w", err)
		}
	case d.Receiver == nil && d.Chain == nil, !mayPrepay, msats < 1:
		return nil, nil
	default:
		var err error
		if to, err = d.newTarget(ctx, msats); err != nil {
			d.Log.Warn("our wallet names nothing that a refund could go to; if the job fails, what was paid is credit at the provider", "err", err)
			return nil, nil
		}
	}

	return nostr.Tags{{"param", "refund", to}}, nil
}

// network is our wallet's, which need not be asked for a Lightning address.
func (d *Desk) network(ctx context.Context, to string) (payments.Network, error) {
	if d.Node == nil || d.Chain == nil && strings.Contains(to, "@") {
		return "", nil
	}
	node, err := d.Node(ctx)
	return node.Network, err
}

// Check wants what a provider could pay: an invoice, an address of our wallet's
// chain, or a Lightning address, of which only that it is one can be told. network is
// the wallet's; "" is any.
func (d *Desk) Check(text string, network payments.Network) error {
	to, err := destination.Parse(text, network)
	if err == nil && to.Invoice != nil && time.Until(to.Invoice.ExpiresAt()) < time.Hour {
		err = errors.New("the invoice expires within the hour")
	}
	return err
}

// newTarget is an invoice of our wallet's, or on the chain a fresh address.
func (d *Desk) newTarget(ctx context.Context, msats int64) (string, error) {
	if d.Chain != nil {
		return d.Chain.RefundAddress(ctx)
	}
	var preimage payments.Preimage
	_, _ = rand.Read(preimage[:]) // never fails
	inv, err := d.Receiver.CreateInvoice(ctx, payments.NewInvoice{
		Preimage: preimage, AmountMsats: msats, Expiry: refundExpiry,
		DescriptionHash: hashing.Bytes([]byte("refund of a job that failed")),
	})
	return inv.BOLT11, err
}

// targetOf is the invoice or the address in our request that a refund is to go
// to; false if it names none that our wallet could know.
func targetOf(t *purchase.Terms) (text string, ok bool) {
	return t.Refund, t.Refund != "" && !strings.Contains(t.Refund, "@")
}

// Target is what a refund of the purchase would come to, the same for all that
// name it, in whatever spelling; "" if its request names nothing that our wallet
// could know.
func Target(p purchase.Purchase) string {
	named, ok := targetOf(purchase.TermsOf(p))
	if !ok {
		return ""
	}
	return destination.Key(named)
}

// Due reports whether money that was paid for the purchase should come
// back to an invoice or address that its request named, and has not been seen to.
func Due(p purchase.Purchase) bool {
	if !(p.State == purchase.StateFailed || p.State == purchase.StateCanceled) || p.RefundMsats != 0 || p.Output != nil || !prepaid(p) ||
		p.Payment == nil || p.Payment.State != payments.PaymentSucceeded {
		return false
	}
	_, named := targetOf(purchase.TermsOf(p))
	return named
}

func prepaid(p purchase.Purchase) bool {
	q, err := receipts.ParseQuote(p.Quote)
	return err == nil && q.Mode == receipts.ModePrepay
}

// received asks our wallet for what came to the invoice or address of a refund.
func (d *Desk) received(ctx context.Context, named string) (payments.Invoice, error) {
	if d.Chain != nil {
		return d.Chain.Refunded(ctx, named)
	}
	inv, err := bolt11.Decode(named)
	if err != nil {
		return payments.Invoice{}, fmt.Errorf("%w: %w", payments.ErrNotFound, err)
	}
	return d.Receiver.LookupInvoice(ctx, inv.PaymentHash)
}

// Await asks our wallet for the refund of a purchase that failed, for Timeout at most,
// and records it. What the provider says of it proves nothing.
func (d *Desk) Await(ctx context.Context, p purchase.Purchase, tell func(purchase.Progress)) (purchase.Purchase, error) {
	if d.Receiver == nil && d.Chain == nil || !Due(p) {
		return p, nil
	}
	named, _ := targetOf(purchase.TermsOf(p))
	say := func(what string, inv payments.Invoice, text string) {
		tell(purchase.Progress{At: time.Now().UTC(), Who: "wallet", What: what, Msats: inv.PaidMsats, Hash: inv.PaymentHash.String(), Text: text})
	}
	patience := time.NewTimer(d.Timeout)
	defer patience.Stop()

	for {
		inv, err := d.received(ctx, named)
		switch {
		case errors.Is(err, payments.ErrNotFound): // somebody else's
			say("refund_unknown", inv, "the refund goes to an invoice or address that our wallet does not know")
			return p, nil
		case err == nil && inv.State == payments.InvoiceSettled && inv.Final:
			err := d.Store.SetRefund(ctx, p.RequestID, inv.PaidMsats)
			if errors.Is(err, purchase.ErrRefundOfAnother) {
				say("refund_missing", payments.Invoice{}, err.Error()+"; what is not refunded is credit at the provider")
				return p, nil
			}
			if err != nil {
				return p, fmt.Errorf("record refund: %w", err)
			}
			say("refunded", inv, inv.Outpoints)
			return d.Store.Purchase(ctx, p.RequestID)
		case err == nil && inv.State == payments.InvoicePending:
			say("refund_pending", inv, "it waits for blocks")
			return p, nil
		}

		select {
		case <-time.After(refundPoll):
		case <-patience.C:
			say("refund_missing", payments.Invoice{}, "what is not refunded is credit at the provider")
			return p, nil
		case <-ctx.Done():
			return p, nil
		}
	}
}

// tagOf is where a provider says what it owes, in the feedback of the purchase.
func tagOf(way purchase.CreditWay) string {
	if way == purchase.CreditOwed {
		return "owed"
	}
	return "credit"
}

// creditIn is how much a feedback event names; 0 if nothing that counts.
func creditIn(ev nostr.Event, way purchase.CreditWay) int64 {
	t := ev.Tags.Find(tagOf(way))
	if t == nil {
		return 0
	}
	msats, err := strconv.ParseInt(t[1], 10, 64)
	if err != nil || msats <= 0 || payments.CheckMsats(msats) != nil {
		return 0
	}
	return msats
}

// Credit records what a feedback event says of what the provider owes, if it does.
func (d *Desk) Credit(ctx context.Context, requestID string, ev nostr.Event, way purchase.CreditWay) error {
	msats := creditIn(ev, way)
	if msats == 0 {
		return nil
	}
	if err := d.Store.SetCredit(ctx, requestID, way, msats); err != nil {
		return fmt.Errorf("record credit: %w", err)
	}
	return nil
}

// CreditText tells how much of what the provider owes us lowered its price, in
// its own words: a number that nothing depends on.
func CreditText(ev nostr.Event) string {
	if credit := creditIn(ev, purchase.CreditUsed); credit > 0 {
		return fmt.Sprintf(", after %g sat of credit", float64(credit)/1000)
	}
	return ""
}
