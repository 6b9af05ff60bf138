package provider_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// These tests play the table of docs/protocol.md, "Payment modes": who can take
// what in which mode. False boxes are played in buyer/sealed_test.go, and a crash
// after settling in sealed_test.go.

// swindle is a provider that the test plays: it quotes what an honest one would.
type swindle struct {
	preimage payments.Preimage
	invoice  payments.Invoice
}

func (w *world) swindle(t *testing.T, c *customer, p buyer.Purchase, mode receipts.Mode, delivery receipts.Delivery) swindle {
	t.Helper()
	s := swindle{preimage: payments.Preimage{1, 2, 3}}
	node, err := w.seller.wallet.Node(w.ctx)
	check(t, err)
	hash := s.preimage.Hash().String()
	quote := receipts.Quote{
		Version: receipts.Version, RequestID: p.RequestID, JobHash: p.JobHash, SchemaID: p.SchemaID,
		Buyer: c.key.PublicKey(), Provider: w.seller.key.PublicKey(), PriceMsats: rateMsats, Purpose: receipts.PurposeResult,
		ExpiresAt: receipts.Timestamp(time.Now().Add(10 * time.Minute)), Mode: mode, Delivery: delivery, Cancellation: "none",
		PolicyBundleID: hashing.Bytes([]byte("policy")), Nonce: strings.Repeat("0", 32), PaymentHash: &hash, PayeeNode: &node.PubKey,
	}
	doc, err := quote.Canonical()
	check(t, err)
	in := payments.NewInvoice{
		PaymentHash: s.preimage.Hash(), Hold: mode == receipts.ModeHold, AmountMsats: rateMsats,
		DescriptionHash: hashing.Bytes(doc), Expiry: 10 * time.Minute,
	}
	if !in.Hold {
		in.Preimage = s.preimage
	}
	s.invoice, err = w.seller.wallet.CreateInvoice(w.ctx, in)
	check(t, err)
	w.says(t, c, p, "payment-required", string(doc), nostr.Tag{"amount", strconv.Itoa(rateMsats), s.invoice.BOLT11}, domain.Quote.Tag())
	return s
}

// says publishes a 7000 of the provider's.
func (w *world) says(t *testing.T, c *customer, p buyer.Purchase, status, content string, more ...nostr.Tag) {
	t.Helper()
	tags := append(nostr.Tags{{"status", status}, {"e", p.RequestID}, {"p", c.key.PublicKey()}}, more...)
	check(t, c.market.Send(w.ctx, raw(t, w.seller.key, 7000, content, tags...)))
}

// take settles the invoice as soon as the money is there.
func (w *world) take(t *testing.T, s swindle) {
	t.Helper()
	for {
		inv, err := w.seller.wallet.LookupInvoice(w.ctx, s.invoice.PaymentHash)
		check(t, err)
		switch inv.State {
		case payments.InvoiceHeld:
			check(t, w.seller.wallet.SettleInvoice(w.ctx, s.preimage))
		case payments.InvoiceSettled:
			return
		}
	}
}

// TestProviderTakesTheMoney: in hold and prepay it can be taken without a result.
// That is not prevented, and not hidden: the purchase says so, and a dispute shows
// what both sides signed, and that the money is gone.
func TestProviderTakesTheMoney(t *testing.T) {
	requirements.Covers(t, "K-48")
	for name, tt := range map[string]struct {
		mode     receipts.Mode
		delivery receipts.Delivery
	}{
		"hold":         {receipts.ModeHold, receipts.DeliveryPlain},
		"hold, sealed": {receipts.ModeHold, receipts.DeliverySealed},
		"prepay":       {receipts.ModePrepay, receipts.DeliveryPlain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.customer(t, nil)
			p := w.place(t, c, tt.mode, order(""))
			s := w.swindle(t, c, p, tt.mode, tt.delivery)
			f := w.follow(t, c, p.RequestID, nil)
			w.take(t, s)
			w.says(t, c, p, "error", "", nostr.Tag{"t", "so long"})
			p = f.failed(t, "paid, no result")
			w.moved(t, c.party, rateMsats, rateMsats+feeMsats)
			if !p.SettledTooEarly || p.Output != nil {
				t.Errorf("settled too early: %v; output %q", p.SettledTooEarly, p.Output)
			}
			d, err := buyer.DisputeOf(w.ctx, c.store, p)
			check(t, err)
			// That nothing came can be shown by nobody, so nobody is said to have cheated.
			if r := d.Rule(receipts.Pins{}); r.ExitCode() != receipts.ExitNotProvable || d.Preimage == nil || d.QuoteEvent == nil {
				t.Errorf("ruled %q: %s", r.Verdict, r.Reason)
			}
		})
	}
}

// TestProviderTakesNothingAfterwards: in postpay nothing is paid for a promise.
func TestProviderTakesNothingAfterwards(t *testing.T) {
	for _, delivery := range []receipts.Delivery{receipts.DeliveryPlain, receipts.DeliverySealed} {
		t.Run(string(delivery), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.customer(t, nil)
			p := w.place(t, c, receipts.ModePostpay, order(""))
			w.swindle(t, c, p, receipts.ModePostpay, delivery)
			w.says(t, c, p, "error", "", nostr.Tag{"t", "so long"})
			p, err := w.follow(t, c, p.RequestID, nil).wait()
			if !errors.Is(err, buyer.ErrFailed) || p.Attempt != nil {
				t.Errorf("purchase %s (%s), %v; attempt %+v", p.State, p.Reason, err, p.Attempt)
			}
			w.moved(t, c.party, 0, 0)
		})
	}
}

// unwilling is a wallet that pays nothing.
type unwilling struct{ *playnet.Client }

func (unwilling) SendPayment(context.Context, payments.Pay) error {
	return payments.ErrInsufficientFunds
}

// TestBuyerTakesTheWork: in postpay a buyer can have the result and not pay; of a
// sealed one it has boxes that only the payment opens.
func TestBuyerTakesTheWork(t *testing.T) {
	for _, delivery := range []receipts.Delivery{receipts.DeliveryPlain, receipts.DeliverySealed} {
		t.Run(string(delivery), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.delivery = delivery
			w.serve(t, nil)
			c := w.customer(t, nil)
			c.client = c.open(t, func(cfg *buyer.Config) { cfg.Wallet = unwilling{c.wallet} })
			p, err := w.follow(t, c, w.place(t, c, receipts.ModePostpay, order("")).RequestID, nil).wait()
			if !errors.Is(err, buyer.ErrFailed) {
				t.Fatalf("purchase %s (%s), %v", p.State, p.Reason, err)
			}
			w.moved(t, c.party, 0, 0)
			if delivery == receipts.DeliveryPlain {
				if p.Output == nil {
					t.Error("the result did not come before the payment")
				}
				return
			}
			if p.Output != nil || p.SealedEvent == nil {
				t.Fatalf("output %q, sealed event %s", p.Output, p.SealedEvent)
			}
			p.Payment = &payments.Payment{State: payments.PaymentSucceeded, Preimage: payments.Preimage{9}}
			if o, err := buyer.Unseal(w.ctx, c.store, p); !errors.Is(err, receipts.ErrFalseBox) {
				t.Errorf("a guessed preimage: %q, %v", o.Output, err)
			}
		})
	}
}

// TestBuyerTakesNothingHeld: who cancels a held payment has its money back, and
// nothing of the result.
func TestBuyerTakesNothingHeld(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePrepay} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			running := make(chan struct{})
			w.runner.do = func(ctx context.Context, r provider.Run) (provider.Outcome, error) {
				close(running)
				return hang(ctx, r)
			}
			w.serve(t, nil)
			c := w.customer(t, nil)
			f := w.follow(t, c, w.place(t, c, mode, order("")).RequestID, nil)
			<-running
			check(t, c.client.Cancel(w.ctx, w.only(t, c).RequestID))
			p := f.failed(t, provider.CodeCanceled)
			if p.Output != nil || p.SealedEvent != nil {
				t.Errorf("output %q", p.Output)
			}
			if mode == receipts.ModeHold {
				w.moved(t, c.party, 0, 0)
				return
			}
			if credit, err := w.store.CreditOf(w.ctx, c.key.PublicKey()); err != nil || credit != rateMsats {
				t.Errorf("credit %d, %v", credit, err)
			}
		})
	}
}

func (w *world) only(t *testing.T, c *customer) buyer.Purchase {
	t.Helper()
	list, err := c.store.Purchases(w.ctx, 0)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d purchases, %v", len(list), err)
	}
	return list[0]
}
