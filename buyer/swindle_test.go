package buyer_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// These tests play the table of docs/protocol/protocol.md, "Payment modes": who can take
// what in which mode. False boxes are played in sealed_test.go, and a crash after
// settling in dies_test.go.

// swindle is a provider that the test plays: it quotes what an honest one would.
type swindle struct {
	preimage payments.Preimage
	invoice  payments.Invoice
}

func newSwindle(t *testing.T, w *markettest.World, c *markettest.Customer, p buyer.Purchase, mode receipts.Mode, delivery receipts.Delivery) swindle {
	t.Helper()
	s := swindle{preimage: payments.Preimage{1, 2, 3}}
	node, err := w.Seller.Wallet.Node(w.Ctx)
	markettest.Check(t, err)
	hash := s.preimage.Hash().String()
	quote := receipts.Quote{
		Version: receipts.Version, RequestID: p.RequestID, JobHash: p.JobHash, SchemaID: p.SchemaID,
		Buyer: c.Key.PublicKey(), Provider: w.Seller.Key.PublicKey(), PriceMsats: markettest.RateMsats, Purpose: receipts.PurposeResult,
		ExpiresAt: receipts.Timestamp(time.Now().Add(10 * time.Minute)), Mode: mode, Delivery: delivery, Cancellation: "none",
		PolicyBundleID: hashing.Bytes([]byte("policy")), Nonce: strings.Repeat("0", 32), PaymentHash: &hash, PayeeNode: &node.PubKey,
	}
	doc, err := quote.Canonical()
	markettest.Check(t, err)
	in := payments.NewInvoice{
		PaymentHash: s.preimage.Hash(), Hold: mode == receipts.ModeHold, AmountMsats: markettest.RateMsats,
		DescriptionHash: hashing.Bytes(doc), Expiry: 10 * time.Minute,
	}
	if !in.Hold {
		in.Preimage = s.preimage
	}
	s.invoice, err = w.Seller.Wallet.CreateInvoice(w.Ctx, in)
	markettest.Check(t, err)
	saysOf(t, w, c, p, "payment-required", string(doc), nostr.Tag{"amount", strconv.Itoa(markettest.RateMsats), s.invoice.BOLT11}, domain.Quote.Tag())
	return s
}

// says publishes a 7000 of the provider's.
func saysOf(t *testing.T, w *markettest.World, c *markettest.Customer, p buyer.Purchase, status, content string, more ...nostr.Tag) {
	t.Helper()
	tags := append(nostr.Tags{{"status", status}, {"e", p.RequestID}, {"p", c.Key.PublicKey()}}, more...)
	markettest.Check(t, c.Market.Send(w.Ctx, markettest.SignedEvent(t, w.Seller.Key, 7000, content, tags...)))
}

// take settles the invoice as soon as the money is there.
func take(t *testing.T, w *markettest.World, s swindle) {
	t.Helper()
	for {
		inv, err := w.Seller.Wallet.LookupInvoice(w.Ctx, s.invoice.PaymentHash)
		markettest.Check(t, err)
		switch inv.State {
		case payments.InvoiceHeld:
			markettest.Check(t, w.Seller.Wallet.SettleInvoice(w.Ctx, s.preimage))
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
			w := markettest.New(t)
			c := w.NewCustomer(t, nil)
			p := w.Place(t, c, tt.mode, markettest.SandboxInput(""))
			s := newSwindle(t, w, c, p, tt.mode, tt.delivery)
			f := w.Follow(t, c, p.RequestID, nil)
			take(t, w, s)
			saysOf(t, w, c, p, "error", "", nostr.Tag{"t", "so long"})
			p = f.Failed(t, "paid, no result")
			w.Moved(t, c.Party, markettest.RateMsats, markettest.RateMsats+markettest.FeeMsats)
			if !p.SettledTooEarly || p.Output != nil {
				t.Errorf("settled too early: %v; output %q", p.SettledTooEarly, p.Output)
			}
			d, err := buyer.DisputeOf(w.Ctx, c.Store, p)
			markettest.Check(t, err)
			// That nothing came can be shown by nobody, so nobody is said to have cheated.
			if r := d.Rule(receipts.Pins{}); r.ExitCode() != receipts.ExitNotProvable || d.Preimage == nil || d.QuoteEvent == nil {
				t.Errorf("ruled %q: %s", r.Verdict, r.Reason)
			}
		})
	}
}

// lateWallet tells what became of a payment only once it may.
type lateWallet struct {
	*playnet.Client
	may chan struct{}
}

func (l lateWallet) TrackPayment(ctx context.Context, hash payments.Hash) (payments.Payment, error) {
	select {
	case <-l.may:
		return l.Client.TrackPayment(ctx, hash)
	case <-ctx.Done():
		return payments.Payment{}, ctx.Err()
	}
}

// TestErrorWithoutWordsWhilePaying: a provider that has the money may give up before our
// wallet tells that it is gone, and without a word of why. The purchase ends all the same.
func TestErrorWithoutWordsWhilePaying(t *testing.T) {
	w := markettest.New(t)
	c := w.NewCustomer(t, nil)
	late := lateWallet{c.Wallet, make(chan struct{})}
	c.Client = c.Open(t, func(cfg *buyer.Config) { cfg.Wallet = late })
	p := w.Place(t, c, receipts.ModePrepay, markettest.SandboxInput(""))
	s := newSwindle(t, w, c, p, receipts.ModePrepay, receipts.DeliveryPlain)
	tell := sync.OnceFunc(func() { close(late.may) })
	f := w.Follow(t, c, p.RequestID, func(e buyer.Progress) {
		if e.Who == "provider" && e.What == "error" {
			tell()
		}
	})
	take(t, w, s)
	saysOf(t, w, c, p, "error", "", nostr.Tag{"t", "so long"})
	if p = f.Failed(t, "paid, no result"); !strings.Contains(p.Reason, "the provider gives no reason") {
		t.Errorf("reason %q", p.Reason)
	}
}

// TestProviderTakesNothingAfterwards: in postpay nothing is paid for a promise.
func TestProviderTakesNothingAfterwards(t *testing.T) {
	for _, delivery := range []receipts.Delivery{receipts.DeliveryPlain, receipts.DeliverySealed} {
		t.Run(string(delivery), func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			c := w.NewCustomer(t, nil)
			p := w.Place(t, c, receipts.ModePostpay, markettest.SandboxInput(""))
			newSwindle(t, w, c, p, receipts.ModePostpay, delivery)
			saysOf(t, w, c, p, "error", "", nostr.Tag{"t", "so long"})
			p, err := w.Follow(t, c, p.RequestID, nil).Wait()
			if !errors.Is(err, buyer.ErrFailed) || p.Attempt != nil {
				t.Errorf("purchase %s (%s), %v; attempt %+v", p.State, p.Reason, err, p.Attempt)
			}
			w.Moved(t, c.Party, 0, 0)
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
			w := markettest.New(t)
			w.Delivery = delivery
			w.Serve(t, nil)
			c := w.NewCustomer(t, nil)
			c.Client = c.Open(t, func(cfg *buyer.Config) { cfg.Wallet = unwilling{c.Wallet} })
			p, err := w.Follow(t, c, w.Place(t, c, receipts.ModePostpay, markettest.SandboxInput("")).RequestID, nil).Wait()
			if !errors.Is(err, buyer.ErrFailed) {
				t.Fatalf("purchase %s (%s), %v", p.State, p.Reason, err)
			}
			w.Moved(t, c.Party, 0, 0)
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
			if o, err := buyer.Unseal(w.Ctx, c.Store, p); !errors.Is(err, receipts.ErrFalseBox) {
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
			w := markettest.New(t)
			running := make(chan struct{})
			w.Runner.Do = func(ctx context.Context, r provider.Run) (provider.Outcome, error) {
				close(running)
				return markettest.Hang(ctx, r)
			}
			w.Serve(t, nil)
			c := w.NewCustomer(t, nil)
			f := w.Follow(t, c, w.Place(t, c, mode, markettest.SandboxInput("")).RequestID, nil)
			<-running
			markettest.Check(t, c.Client.Cancel(w.Ctx, onlyPurchase(t, w, c).RequestID))
			p := f.Failed(t, provider.CodeCanceled)
			if p.Output != nil || p.SealedEvent != nil {
				t.Errorf("output %q", p.Output)
			}
			if mode == receipts.ModeHold {
				w.Moved(t, c.Party, 0, 0)
				return
			}
			if credit, err := w.Store.CreditOf(w.Ctx, c.Key.PublicKey()); err != nil || credit != markettest.RateMsats {
				t.Errorf("credit %d, %v", credit, err)
			}
		})
	}
}

func onlyPurchase(t *testing.T, w *markettest.World, c *markettest.Customer) buyer.Purchase {
	t.Helper()
	list, err := c.Store.Purchases(w.Ctx, 0)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d purchases, %v", len(list), err)
	}
	return list[0]
}
