package provider_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// chooser is a wallet that takes no preimage of ours, as most that are reached by
// NIP-47: it makes its own, shows it once the invoice is paid, and cancels nothing.
type chooser struct {
	*playnet.Client
	lists bool // its transactions, so that it finds an invoice again
	hides bool // the preimages

	mu      sync.Mutex
	secrets map[payments.Hash]payments.Preimage
	made    []payments.Invoice
	byQuote map[hashing.Digest]payments.Invoice
	// lost is called for an invoice that is made, and its error told in its place.
	lost func(payments.Invoice) error
}

func (w *world) chooser() *chooser {
	return &chooser{Client: w.seller.wallet, secrets: map[payments.Hash]payments.Preimage{}, byQuote: map[hashing.Digest]payments.Invoice{}}
}

func (c *chooser) sells(cfg *provider.Config) { cfg.Wallet, cfg.MakeInvoice = c, c.MakeInvoice }

func (c *chooser) CreateInvoice(ctx context.Context, in payments.NewInvoice) (payments.Invoice, error) {
	if !in.Hold {
		return payments.Invoice{}, payments.ErrUnsupported
	}
	return c.Client.CreateInvoice(ctx, in)
}

func (c *chooser) MakeInvoice(ctx context.Context, in payments.NewInvoice, _ time.Time) (payments.Invoice, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.byQuote[in.DescriptionHash]; ok && c.lists {
		return c.Client.LookupInvoice(ctx, known.PaymentHash)
	}
	if !in.PaymentHash.IsZero() || !in.Preimage.IsZero() {
		return payments.Invoice{}, payments.ErrBadRequest
	}
	rand.Read(in.Preimage[:]) // never fails
	inv, err := c.Client.CreateInvoice(ctx, in)
	if err != nil {
		return inv, err
	}
	c.secrets[inv.PaymentHash], c.byQuote[in.DescriptionHash] = in.Preimage, inv
	c.made = append(c.made, inv)
	if c.lost != nil {
		return payments.Invoice{}, c.lost(inv)
	}
	return inv, nil
}

func (c *chooser) LookupInvoice(ctx context.Context, hash payments.Hash) (payments.Invoice, error) {
	inv, err := c.Client.LookupInvoice(ctx, hash)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && inv.State == payments.InvoiceSettled && !c.hides {
		inv.Preimage = c.secrets[hash]
	}
	return inv, err
}

func (c *chooser) CancelInvoice(ctx context.Context, hash payments.Hash) error {
	inv, err := c.Client.LookupInvoice(ctx, hash)
	if err == nil && inv.State == payments.InvoiceOpen {
		return payments.ErrUnsupported
	}
	return c.Client.CancelInvoice(ctx, hash)
}

func (c *chooser) invoices() []payments.Invoice {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made
}

// TestWalletChoosesThePaymentHash: a job is sold before and after the run, though the
// quote names no payment hash; the receipt names the one that the wallet chose, is
// proved, and says what it is weaker by. Nothing is sealed, though the buyer asks for it.
func TestWalletChoosesThePaymentHash(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModePrepay, receipts.ModePostpay} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			wallet := w.chooser()
			w.serve(t, wallet.sells)
			c := w.customer(t, nil)
			p := w.place(t, c, mode, order(""))
			w.delivery = receipts.DeliveryPlain // what is had
			p = w.sold(t, c, w.follow(t, c, p.RequestID, nil), mode)

			job, err := w.store.Job(w.ctx, p.RequestID)
			check(t, err)
			quote, err := receipts.ParseQuote(p.Quote)
			check(t, err)
			receipt, err := receipts.ParseReceipt(job.Receipt)
			check(t, err)
			made := wallet.invoices()
			if len(made) != 1 || quote.PaymentHash != nil || quote.Delivery != receipts.DeliveryPlain ||
				receipt.PaymentHash != made[0].PaymentHash.String() || job.PaymentHash != made[0].PaymentHash || p.Attempt.PaymentHash != made[0].PaymentHash {
				t.Errorf("quote %+v, receipt of %s, invoices %v", quote, receipt.PaymentHash, made)
			}
			if of, err := w.store.JobByPaymentHash(w.ctx, made[0].PaymentHash); err != nil || of.RequestID != p.RequestID {
				t.Errorf("the payment hash finds job %q, %v", of.RequestID, err)
			}
			b, err := c.client.Bundle(w.ctx, p.RequestID)
			check(t, err)
			if said := claimOf(receipts.Verify(b, receipts.Pins{}), receipts.ClaimInvoiceCommits).Reason; !strings.Contains(said, "weaker, as the quote names no payment hash") {
				t.Errorf("the claim says %q", said)
			}
			b.QuoteEvent = nil
			if got := claimOf(receipts.Verify(b, receipts.Pins{}), receipts.ClaimInvoiceCommits); got.State != receipts.NotProvable {
				t.Errorf("without the provider's demand: %+v", got)
			}
		})
	}
}

func claimOf(r receipts.Report, name string) receipts.Claim {
	for _, c := range r.Claims {
		if c.Name == name {
			return c
		}
	}
	return receipts.Claim{}
}

// TestEncryptedJobOfAWalletThatChooses: the demand that is signed within is what ties the
// invoice to the quote.
func TestEncryptedJobOfAWalletThatChooses(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModePrepay, receipts.ModePostpay} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			wallet := w.chooser()
			w.serve(t, func(cfg *provider.Config) {
				w.hidden(cfg)
				wallet.sells(cfg)
			})
			c := w.customer(t, nil)
			c.client = c.open(t, func(cfg *buyer.Config) { cfg.Cipher = c.key })
			p, err := c.client.Place(w.ctx, buyer.Order{
				Provider: w.seller.key.PublicKey(), SchemaID: "oa.sandbox_run.v1", Input: order(""), MaxMsats: maxMsats, Mode: mode, Encrypt: true,
			})
			check(t, err)
			p, err = w.follow(t, c, p.RequestID, nil).wait()
			if err != nil || p.State != buyer.StateDone || p.ReceiptID == "" {
				t.Fatalf("purchase %s (%s), receipt %q, %v", p.State, p.Reason, p.ReceiptID, err)
			}
			b, err := c.client.Bundle(w.ctx, p.RequestID)
			check(t, err)
			if got := claimOf(receipts.Verify(b, receipts.Pins{}), receipts.ClaimInvoiceCommits); got.State != receipts.Proved {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestHoldWithAWalletThatChooses: what is held has a payment hash of ours.
func TestHoldWithAWalletThatChooses(t *testing.T) {
	w := newWorld(t)
	wallet := w.chooser()
	w.serve(t, wallet.sells)
	c := w.customer(t, nil)
	p := w.place(t, c, receipts.ModeHold, order(""))
	p = w.sold(t, c, w.follow(t, c, p.RequestID, nil), receipts.ModeHold)
	if quote, err := receipts.ParseQuote(p.Quote); err != nil || quote.PaymentHash == nil || len(wallet.invoices()) != 0 {
		t.Errorf("quote %s, %v", p.Quote, err)
	}
}

// TestInvoiceIsMadeAndNotRecorded: the provider dies after the wallet has made an
// invoice and before that is on record. A wallet that lists its transactions gives the
// same one again, paid or not; of another's first invoice nobody was told, and the
// buyer pays the second. There is one payment and one receipt.
func TestInvoiceIsMadeAndNotRecorded(t *testing.T) {
	for name, tt := range map[string]struct {
		lists, paid bool
		invoices    int
	}{
		"found again":        {lists: true, invoices: 1},
		"found and paid":     {lists: true, paid: true, invoices: 1},
		"nobody knows of it": {invoices: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			wallet := w.chooser()
			wallet.lists = tt.lists
			made := make(chan payments.Invoice, 1)
			wallet.lost = func(inv payments.Invoice) error {
				w.store.stop()
				made <- inv
				return errors.New("the node died")
			}
			stop := w.serve(t, wallet.sells)
			c := w.customer(t, nil)
			p := w.place(t, c, receipts.ModePrepay, order(""))
			f := w.follow(t, c, p.RequestID, nil)
			first := <-made
			stop()
			if job, err := w.store.Job(w.ctx, p.RequestID); err != nil || job.BOLT11 != "" || !job.PaymentHash.IsZero() {
				t.Fatalf("on record: invoice %q, %v", job.BOLT11, err)
			}
			somebody := w.party(t, "somebody")
			if tt.paid {
				check(t, somebody.wallet.SendPayment(w.ctx, payments.Pay{BOLT11: first.BOLT11, AmountMsats: rateMsats, FeeLimitMsats: feeMsats}))
			}

			wallet.mu.Lock()
			wallet.lost = nil
			wallet.mu.Unlock()
			w.serve(t, wallet.sells)
			if tt.paid {
				job := w.ended(t, p.RequestID)
				if job.State != provider.StateSucceeded || job.PaymentHash != first.PaymentHash || job.ReceiptID == "" {
					t.Errorf("job %s (%s), receipt %q", job.State, job.Reason, job.ReceiptID)
				}
				w.moved(t, somebody, rateMsats, rateMsats+feeMsats)
			} else {
				w.delivery = receipts.DeliveryPlain
				w.sold(t, c, f, receipts.ModePrepay)
			}
			if got := wallet.invoices(); len(got) != tt.invoices {
				t.Errorf("%d invoices, want %d", len(got), tt.invoices)
			}
		})
	}
}

// TestWalletHidesItsPreimage: what came for a job is owed to its buyer where the wallet
// shows no preimage, since no receipt can be made.
func TestWalletHidesItsPreimage(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModePrepay, receipts.ModePostpay} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.delivery = receipts.DeliveryPlain
			wallet := w.chooser()
			wallet.hides = true
			w.serve(t, wallet.sells)
			c := w.customer(t, nil)
			p := w.place(t, c, mode, order(""))
			f := w.follow(t, c, p.RequestID, nil)
			job := w.ended(t, p.RequestID)
			if job.State != provider.StateFailed || job.ReceiptID != "" || !strings.Contains(job.Reason.Detail, "no proof of the payment") {
				t.Errorf("job %s (%s)", job.State, job.Reason)
			}
			if p, err := f.wait(); p.ReceiptID != "" || (mode == receipts.ModePrepay) != errors.Is(err, buyer.ErrFailed) { // of postpay it has the result
				t.Errorf("purchase %s (%s), receipt %q, %v", p.State, p.Reason, p.ReceiptID, err)
			}
			owed, err := w.store.CreditOf(w.ctx, c.key.PublicKey())
			check(t, err)
			if owed != rateMsats {
				t.Errorf("%d msats are owed", owed)
			}
		})
	}
}

// TestRunFailsBeforeAnInvoiceIsTold: a wallet that cancels nothing does not keep a job
// open whose invoice nobody was told of.
func TestRunFailsBeforeAnInvoiceIsTold(t *testing.T) {
	w := newWorld(t)
	w.failing()
	wallet := w.chooser()
	w.serve(t, wallet.sells)
	c := w.customer(t, nil)
	p := w.place(t, c, receipts.ModePostpay, order(""))
	f := w.follow(t, c, p.RequestID, nil)
	if job := w.ended(t, p.RequestID); job.State != provider.StateFailed || len(wallet.invoices()) != 1 {
		t.Errorf("job %s (%s), %d invoices", job.State, job.Reason, len(wallet.invoices()))
	}
	if _, err := f.wait(); !errors.Is(err, buyer.ErrFailed) {
		t.Errorf("the buyer ends with %v", err)
	}
	w.moved(t, c.party, 0, 0)
}

// asksFor sends a request whose answers nobody follows.
func (w *world) asksFor(t *testing.T, c *customer, input []byte, terms ...nostr.Tag) nostr.Event {
	t.Helper()
	tags := append(terms, nostr.Tag{"i", string(input), "text"}, nostr.Tag{"param", "schema", "oa.sandbox_run.v1"}, nostr.Tag{"p", w.seller.key.PublicKey()})
	ev := raw(t, c.key, 5050, "", tags...)
	check(t, c.market.Send(w.ctx, ev))
	return ev
}

// TestUnpaidQuoteOfAWalletThatCancelsNothing: the job ends once its invoice has lapsed
// by itself.
func TestUnpaidQuoteOfAWalletThatCancelsNothing(t *testing.T) {
	w := newWorld(t)
	wallet := w.chooser()
	w.serve(t, func(cfg *provider.Config) {
		wallet.sells(cfg)
		cfg.Limits.QuoteTTL, cfg.Limits.LookupEvery = 2*time.Second, 100*time.Millisecond
	})
	c := w.customer(t, nil)
	ev := w.asksFor(t, c, order(""), nostr.Tag{"param", "payment_mode", "prepay"})
	if job := w.ended(t, ev.ID); job.State != provider.StateExpired {
		t.Errorf("job %s (%s)", job.State, job.Reason)
	}
}

// TestNoSeatForAWalletThatChooses: a seat of a panel that votes needs a sealed result.
func TestNoSeatForAWalletThatChooses(t *testing.T) {
	w := newWorld(t)
	w.serve(t, w.chooser().sells)
	c := w.customer(t, nil)
	ev := w.asksFor(t, c, order(`,"verification":{"redundancy":3,"adjudication":"majority_vote"}`),
		nostr.Tag{"param", "payment_mode", "postpay"}, nostr.Tag{"param", "delivery", "sealed"}, nostr.Tag{"param", "agreement", "commit"})
	for change := w.store.changed(); !w.store.wasRefused(ev.ID); change = w.store.changed() {
		select {
		case <-change:
		case <-w.ctx.Done():
			t.Fatal("it is not refused")
		}
	}
}
