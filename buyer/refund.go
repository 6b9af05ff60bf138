package buyer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bip21"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/payments/tapassets"
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

// NoRefund, as Order.Refund, asks for none: a failed prepayment becomes credit.
const NoRefund = "none"

const (
	// refundExpiry is how long a provider has to pay a refund.
	refundExpiry = 7 * 24 * time.Hour
	refundPoll   = 500 * time.Millisecond
)

// refundTags name where a failed prepayment is to go: what the order says, or
// an invoice of our own wallet for the price, where the job may be prepaid and
// the wallet can receive.
func (c *Client) refundTags(ctx context.Context, o Order, bidMsats int64) (nostr.Tags, error) {
	to := o.Refund
	switch {
	case to == NoRefund:
		return nil, nil
	case to != "":
		if err := c.checkRefund(ctx, to); err != nil {
			return nil, fmt.Errorf("refund: %w", err)
		}
	case c.cfg.Receiver == nil && c.cfg.Chain == nil, !c.mayPrepay(o), bidMsats < 1:
		return nil, nil
	default:
		var err error
		if to, err = c.refundTarget(ctx, bidMsats); err != nil {
			c.log.Warn("our wallet names nothing that a refund could go to; if the job fails, what was paid is credit at the provider", "err", err)
			return nil, nil
		}
	}

	return nostr.Tags{{"param", "refund", to}}, nil
}

// checkRefund wants an invoice that a provider could pay, or a Lightning address,
// of which only that it is one can be told.
func (c *Client) checkRefund(ctx context.Context, text string) error {
	if c.cfg.Chain != nil {
		node, err := c.payer.Node(ctx)
		if err != nil {
			return err
		}
		_, err = bip21.Parse(text, node.Network)
		return err
	}

	if strings.Contains(text, "@") {
		_, _, err := payments.ParseAddress(text)
		return err
	}
	if tapassets.IsAddress(text) {
		return tapassets.Refuse(text)
	}

	inv, err := bolt11.Decode(text)
	if err != nil {
		return fmt.Errorf("not a BOLT11 invoice: %w", err)
	}
	if c.cfg.Wallet != nil {
		node, err := c.payer.Node(ctx)
		if err != nil {
			return err
		}
		if inv.Network != node.Network {
			return fmt.Errorf("%w: the invoice is for %s, our wallet for %s", payments.ErrWrongNetwork, inv.Network, node.Network)
		}
	}

	switch {
	case inv.AmountMsats < 1:
		return errors.New("the invoice names no amount")
	case time.Until(inv.ExpiresAt()) < time.Hour:
		return errors.New("the invoice expires within the hour")
	}

	return nil
}

// mayPrepay reports whether the provider may take the money before it works.
func (c *Client) mayPrepay(o Order) bool {
	if !slices.Contains(c.cfg.Modes, receipts.ModePrepay) {
		return false
	}
	if o.Mode != "" || o.Announced == nil {
		return o.Mode == receipts.ModePrepay
	}
	modes := o.Announced.Modes[o.SchemaID]
	return len(modes) > 0 && modes[0] == receipts.ModePrepay
}

// refundTarget is an invoice of our wallet's, or on the chain a fresh address.
func (c *Client) refundTarget(ctx context.Context, msats int64) (string, error) {
	if c.cfg.Chain != nil {
		return c.cfg.Chain.RefundAddress(ctx)
	}
	var preimage payments.Preimage
	_, _ = rand.Read(preimage[:]) // never fails
	inv, err := c.cfg.Receiver.CreateInvoice(ctx, payments.NewInvoice{
		Preimage: preimage, AmountMsats: msats, Expiry: refundExpiry,
		DescriptionHash: hashing.Bytes([]byte("refund of a job that failed")),
	})
	return inv.BOLT11, err
}

// refundNamed is the invoice or the address in our request that a refund is to go
// to; false if it names none that our wallet could know.
func refundNamed(t *purchase.Terms) (text string, ok bool) {
	return t.Refund, t.Refund != "" && !strings.Contains(t.Refund, "@")
}

// RefundTarget is what a refund of the purchase would come to, the same for all that
// name it, in whatever spelling; "" if its request names nothing that our wallet
// could know.
func RefundTarget(p Purchase) string {
	named, ok := refundNamed(purchase.TermsOf(p))
	if !ok {
		return ""
	}
	if inv, err := bolt11.Decode(named); err == nil {
		return inv.PaymentHash.String()
	}
	address, _, _ := strings.Cut(strings.TrimPrefix(strings.ToLower(named), "bitcoin:"), "?")
	return address
}

// RefundDue reports whether money that was paid for the purchase should come
// back to an invoice or address that its request named, and has not been seen to.
func RefundDue(p Purchase) bool {
	if !(p.State == StateFailed || p.State == StateCanceled) || p.RefundMsats != 0 || p.Output != nil || !prepaid(p) ||
		p.Payment == nil || p.Payment.State != payments.PaymentSucceeded {
		return false
	}
	_, named := refundNamed(purchase.TermsOf(p))
	return named
}

func prepaid(p Purchase) bool {
	q, err := receipts.ParseQuote(p.Quote)
	return err == nil && q.Mode == receipts.ModePrepay
}

// cameBack asks our wallet for what came to the invoice or address of a refund.
func (c *Client) cameBack(ctx context.Context, named string) (payments.Invoice, error) {
	if c.cfg.Chain != nil {
		return c.cfg.Chain.Refunded(ctx, named)
	}
	inv, err := bolt11.Decode(named)
	if err != nil {
		return payments.Invoice{}, fmt.Errorf("%w: %w", payments.ErrNotFound, err)
	}
	return c.cfg.Receiver.LookupInvoice(ctx, inv.PaymentHash)
}

// awaitRefund asks our wallet for the refund of a purchase that failed, for
// RefundTimeout, and records it. What the provider says of it proves nothing.
func (c *Client) awaitRefund(ctx context.Context, p Purchase, tell func(Progress)) (Purchase, error) {
	if c.cfg.Receiver == nil && c.cfg.Chain == nil || !RefundDue(p) {
		return p, nil
	}
	named, _ := refundNamed(purchase.TermsOf(p))
	say := func(what string, inv payments.Invoice, text string) {
		tell(Progress{At: time.Now().UTC(), Who: "wallet", What: what, Msats: inv.PaidMsats, Hash: inv.PaymentHash.String(), Text: text})
	}
	patience := time.NewTimer(c.cfg.RefundTimeout)
	defer patience.Stop()

	for {
		inv, err := c.cameBack(ctx, named)
		switch {
		case errors.Is(err, payments.ErrNotFound): // somebody else's
			say("refund_unknown", inv, "the refund goes to an invoice or address that our wallet does not know")
			return p, nil
		case err == nil && inv.State == payments.InvoiceSettled && inv.Final:
			err := c.cfg.Store.SetRefund(ctx, p.RequestID, inv.PaidMsats)
			if errors.Is(err, ErrRefundOfAnother) {
				say("refund_missing", payments.Invoice{}, err.Error()+"; what is not refunded is credit at the provider")
				return p, nil
			}
			if err != nil {
				return p, fmt.Errorf("record refund: %w", err)
			}
			say("refunded", inv, inv.Outpoints)
			return c.cfg.Store.Purchase(ctx, p.RequestID)
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

// CreditWay is what a provider says of what it owes us: that it does, or that a
// quote is lowered by it. It is its own word, which it signed: it tells who owes
// from who took the money and was silent, and nothing is paid by it.
type CreditWay string

// The ways of credit.
const (
	CreditOwed CreditWay = "owed" // of a purchase that failed
	CreditUsed CreditWay = "used" // the price of this one is less by it
)

// tag is where a provider says so, in the feedback of the purchase.
func (w CreditWay) tag() string {
	if w == CreditOwed {
		return "owed"
	}
	return "credit"
}

// creditIn is how much a feedback event names; 0 if nothing that counts.
func creditIn(ev nostr.Event, way CreditWay) int64 {
	t := ev.Tags.Find(way.tag())
	if t == nil {
		return 0
	}
	msats, err := strconv.ParseInt(t[1], 10, 64)
	if err != nil || msats <= 0 || payments.CheckMsats(msats) != nil {
		return 0
	}
	return msats
}

func (f *follower) credit(ctx context.Context, ev nostr.Event, way CreditWay) error {
	msats := creditIn(ev, way)
	if msats == 0 {
		return nil
	}
	if err := f.c.cfg.Store.SetCredit(ctx, f.id, way, msats); err != nil {
		return fmt.Errorf("record credit: %w", err)
	}
	return nil
}

// creditText tells how much of what the provider owes us lowered its price, in
// its own words: a number that nothing depends on.
func creditText(ev nostr.Event) string {
	if credit := creditIn(ev, CreditUsed); credit > 0 {
		return fmt.Sprintf(", after %g sat of credit", float64(credit)/1000)
	}
	return ""
}
