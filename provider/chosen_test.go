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
	"github.com/lightwork-market/lightwork/internal/markettest"
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

func newChooser(w *markettest.World) *chooser {
	return &chooser{Client: w.Seller.Wallet, secrets: map[payments.Hash]payments.Preimage{}, byQuote: map[hashing.Digest]payments.Invoice{}}
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
			w := markettest.New(t)
			wallet := newChooser(w)
			w.Serve(t, wallet.sells)
			c := w.NewCustomer(t, nil)
			p := w.Place(t, c, mode, markettest.SandboxInput(""))
			w.Delivery = receipts.DeliveryPlain // what is had
			p = w.Sold(t, c, w.Follow(t, c, p.RequestID, nil), mode)

			job, err := w.Store.Job(w.Ctx, p.RequestID)
			markettest.Check(t, err)
			quote, err := receipts.ParseQuote(p.Quote)
			markettest.Check(t, err)
			receipt, err := receipts.ParseReceipt(job.Receipt)
			markettest.Check(t, err)
			made := wallet.invoices()
			if len(made) != 1 || quote.PaymentHash != nil || quote.Delivery != receipts.DeliveryPlain ||
				receipt.PaymentHash != made[0].PaymentHash.String() || job.PaymentHash != made[0].PaymentHash || p.Attempt.PaymentHash != made[0].PaymentHash {
				t.Errorf("quote %+v, receipt of %s, invoices %v", quote, receipt.PaymentHash, made)
			}
			if of, err := w.Store.JobByPaymentHash(w.Ctx, made[0].PaymentHash); err != nil || of.RequestID != p.RequestID {
				t.Errorf("the payment hash finds job %q, %v", of.RequestID, err)
			}
			b, err := c.Client.Bundle(w.Ctx, p.RequestID)
			markettest.Check(t, err)
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
			w := markettest.New(t)
			wallet := newChooser(w)
			w.Serve(t, func(cfg *provider.Config) {
				w.ReadsHidden(cfg)
				wallet.sells(cfg)
			})
			c := w.NewCustomer(t, nil)
			c.Client = c.Open(t, func(cfg *buyer.Config) { cfg.Cipher = c.Key })
			p, err := c.Client.Place(w.Ctx, buyer.Order{
				Provider: w.Seller.Key.PublicKey(), SchemaID: "oa.sandbox_run.v1", Input: markettest.SandboxInput(""), MaxMsats: markettest.MaxMsats, Mode: mode, Encrypt: true,
			})
			markettest.Check(t, err)
			p, err = w.Follow(t, c, p.RequestID, nil).Wait()
			if err != nil || p.State != buyer.StateDone || p.ReceiptID == "" {
				t.Fatalf("purchase %s (%s), receipt %q, %v", p.State, p.Reason, p.ReceiptID, err)
			}
			b, err := c.Client.Bundle(w.Ctx, p.RequestID)
			markettest.Check(t, err)
			if got := claimOf(receipts.Verify(b, receipts.Pins{}), receipts.ClaimInvoiceCommits); got.State != receipts.Proved {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestHoldWithAWalletThatChooses: what is held has a payment hash of ours.
func TestHoldWithAWalletThatChooses(t *testing.T) {
	w := markettest.New(t)
	wallet := newChooser(w)
	w.Serve(t, wallet.sells)
	c := w.NewCustomer(t, nil)
	p := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
	p = w.Sold(t, c, w.Follow(t, c, p.RequestID, nil), receipts.ModeHold)
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
			w := markettest.New(t)
			wallet := newChooser(w)
			wallet.lists = tt.lists
			made := make(chan payments.Invoice, 1)
			wallet.lost = func(inv payments.Invoice) error {
				w.Store.EndLife()
				made <- inv
				return errors.New("the node died")
			}
			stop := w.Serve(t, wallet.sells)
			c := w.NewCustomer(t, nil)
			p := w.Place(t, c, receipts.ModePrepay, markettest.SandboxInput(""))
			f := w.Follow(t, c, p.RequestID, nil)
			first := <-made
			stop()
			if job, err := w.Store.Job(w.Ctx, p.RequestID); err != nil || job.BOLT11 != "" || !job.PaymentHash.IsZero() {
				t.Fatalf("on record: invoice %q, %v", job.BOLT11, err)
			}
			somebody := w.NewParty(t, "somebody")
			if tt.paid {
				markettest.Check(t, somebody.Wallet.SendPayment(w.Ctx, payments.Pay{BOLT11: first.BOLT11, AmountMsats: markettest.RateMsats, FeeLimitMsats: markettest.FeeMsats}))
			}

			wallet.mu.Lock()
			wallet.lost = nil
			wallet.mu.Unlock()
			w.Serve(t, wallet.sells)
			if tt.paid {
				job := w.Ended(t, p.RequestID)
				if job.State != provider.StateSucceeded || job.PaymentHash != first.PaymentHash || job.ReceiptID == "" {
					t.Errorf("job %s (%s), receipt %q", job.State, job.Reason, job.ReceiptID)
				}
				w.Moved(t, somebody, markettest.RateMsats, markettest.RateMsats+markettest.FeeMsats)
			} else {
				w.Delivery = receipts.DeliveryPlain
				w.Sold(t, c, f, receipts.ModePrepay)
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
			w := markettest.New(t)
			w.Delivery = receipts.DeliveryPlain
			wallet := newChooser(w)
			wallet.hides = true
			w.Serve(t, wallet.sells)
			c := w.NewCustomer(t, nil)
			p := w.Place(t, c, mode, markettest.SandboxInput(""))
			f := w.Follow(t, c, p.RequestID, nil)
			job := w.Ended(t, p.RequestID)
			if job.State != provider.StateFailed || job.ReceiptID != "" || !strings.Contains(job.Reason.Detail, "no proof of the payment") {
				t.Errorf("job %s (%s)", job.State, job.Reason)
			}
			if p, err := f.Wait(); p.ReceiptID != "" || (mode == receipts.ModePrepay) != errors.Is(err, buyer.ErrFailed) { // of postpay it has the result
				t.Errorf("purchase %s (%s), receipt %q, %v", p.State, p.Reason, p.ReceiptID, err)
			}
			owed, err := w.Store.CreditOf(w.Ctx, c.Key.PublicKey())
			markettest.Check(t, err)
			if owed != markettest.RateMsats {
				t.Errorf("%d msats are owed", owed)
			}
		})
	}
}

// TestRunFailsBeforeAnInvoiceIsTold: a wallet that cancels nothing does not keep a job
// open whose invoice nobody was told of.
func TestRunFailsBeforeAnInvoiceIsTold(t *testing.T) {
	w := markettest.New(t)
	w.Failing()
	wallet := newChooser(w)
	w.Serve(t, wallet.sells)
	c := w.NewCustomer(t, nil)
	p := w.Place(t, c, receipts.ModePostpay, markettest.SandboxInput(""))
	f := w.Follow(t, c, p.RequestID, nil)
	if job := w.Ended(t, p.RequestID); job.State != provider.StateFailed || len(wallet.invoices()) != 1 {
		t.Errorf("job %s (%s), %d invoices", job.State, job.Reason, len(wallet.invoices()))
	}
	if _, err := f.Wait(); !errors.Is(err, buyer.ErrFailed) {
		t.Errorf("the buyer ends with %v", err)
	}
	w.Moved(t, c.Party, 0, 0)
}

// asksFor sends a request whose answers nobody follows.
func asksFor(t *testing.T, w *markettest.World, c *markettest.Customer, input []byte, terms ...nostr.Tag) nostr.Event {
	t.Helper()
	tags := append(terms, nostr.Tag{"i", string(input), "text"}, nostr.Tag{"param", "schema", "oa.sandbox_run.v1"}, nostr.Tag{"p", w.Seller.Key.PublicKey()})
	ev := markettest.SignedEvent(t, c.Key, 5050, "", tags...)
	markettest.Check(t, c.Market.Send(w.Ctx, ev))
	return ev
}

// TestUnpaidQuoteOfAWalletThatCancelsNothing: the job ends once its invoice has lapsed
// by itself.
func TestUnpaidQuoteOfAWalletThatCancelsNothing(t *testing.T) {
	w := markettest.New(t)
	wallet := newChooser(w)
	w.Serve(t, func(cfg *provider.Config) {
		wallet.sells(cfg)
		cfg.Limits.QuoteTTL, cfg.Limits.LookupEvery = 2*time.Second, 100*time.Millisecond
	})
	c := w.NewCustomer(t, nil)
	ev := asksFor(t, w, c, markettest.SandboxInput(""), nostr.Tag{"param", "payment_mode", "prepay"})
	if job := w.Ended(t, ev.ID); job.State != provider.StateExpired {
		t.Errorf("job %s (%s)", job.State, job.Reason)
	}
}

// TestNoSeatForAWalletThatChooses: a seat of a panel that votes needs a sealed result.
func TestNoSeatForAWalletThatChooses(t *testing.T) {
	w := markettest.New(t)
	w.Serve(t, newChooser(w).sells)
	c := w.NewCustomer(t, nil)
	ev := asksFor(t, w, c, markettest.SandboxInput(`,"verification":{"redundancy":3,"adjudication":"majority_vote"}`),
		nostr.Tag{"param", "payment_mode", "postpay"}, nostr.Tag{"param", "delivery", "sealed"}, nostr.Tag{"param", "agreement", "commit"})
	for change := w.Store.Changed(); !w.Store.WasRefused(ev.ID); change = w.Store.Changed() {
		select {
		case <-change:
		case <-w.Ctx.Done():
			t.Fatal("it is not refused")
		}
	}
}
