package provider_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
)

// onChain makes a wallet look like one on the chain, where the test says what is
// there. payments/onchain is tested against a real chain.
type onChain struct {
	provider.Wallet
	hint chan payments.Hash

	mu    sync.Mutex
	now   payments.Invoice // but for the hash
	looks int
	paid  map[payments.Hash]payments.Invoice // what is settled from the start, whatever is there now
	// feesPaid: engagement fees are.
	feesPaid bool
}

func newOnChain(w *markettest.World) *onChain {
	return &onChain{Wallet: w.Seller.Wallet, hint: make(chan payments.Hash), now: payments.Invoice{State: payments.InvoiceOpen}}
}

func (c *onChain) Node(ctx context.Context) (payments.Node, error) {
	n, err := c.Wallet.Node(ctx)
	n.Network = payments.Simnet.OnChain()
	return n, err
}

func (c *onChain) LookupInvoice(_ context.Context, hash payments.Hash) (payments.Invoice, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
	inv, ok := c.paid[hash]
	if !ok {
		inv = c.now
	}
	inv.PaymentHash = hash
	return inv, nil
}

func (c *onChain) CreateInvoice(ctx context.Context, want payments.NewInvoice) (payments.Invoice, error) {
	c.mu.Lock()
	if c.feesPaid && want.AmountMsats == markettest.AttemptMsats {
		c.paid = map[payments.Hash]payments.Invoice{want.PaymentHash: onTheChain(payments.InvoiceSettled, markettest.AttemptMsats)}
	}
	c.mu.Unlock()
	return c.Wallet.CreateInvoice(ctx, want)
}

// asked counts the questions so far.
func (c *onChain) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks
}

func (c *onChain) CancelInvoice(context.Context, payments.Hash) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.now.State; s == payments.InvoiceOpen || s == payments.InvoicePartial {
		c.now.State = payments.InvoiceCanceled
	}
	return nil
}

func (c *onChain) WatchInvoices(ctx context.Context, hint func(payments.Hash)) error {
	for {
		select {
		case h := <-c.hint:
			hint(h)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func onTheChain(state payments.InvoiceState, msats int64) payments.Invoice {
	return payments.Invoice{State: state, PaidMsats: msats, Outpoints: strings.Repeat("ab", 32) + ":0", Final: state == payments.InvoiceSettled}
}

// comes says what the chain has now; with a job, the provider is told to look.
func (c *onChain) comes(job *provider.Job, state payments.InvoiceState, msats int64) {
	c.mu.Lock()
	c.now = onTheChain(state, msats)
	c.mu.Unlock()
	if job != nil {
		c.hint <- job.PaymentHash
	}
}

// sellOnChain serves with quotes that last for a second, and orders a job. What the
// chain has by then is there from the start, so that it is in time.
func sellOnChain(t *testing.T, state payments.InvoiceState, msats int64) (*markettest.World, *onChain, *markettest.Customer, nostr.Event) {
	w := markettest.New(t)
	chain := newOnChain(w)
	chain.comes(nil, state, msats)
	w.Serve(t, func(cfg *provider.Config) {
		cfg.Wallet, cfg.LeastMsats, cfg.Limits.QuoteTTL = chain, 10_000, time.Second
	})
	c := w.NewCustomer(t, nil)
	req := w.Request(t, c.Key, markettest.SandboxInput(""), nostr.Tag{"param", "payment_mode", "prepay"})
	markettest.Check(t, c.Market.Send(w.Ctx, req))
	return w, chain, c, req
}

// owed waits until so much is owed for a job, and the buyer was told, in words and
// as a number.
func owed(t *testing.T, w *markettest.World, c *markettest.Customer, id string, msats int64, told string) {
	t.Helper()
	hasCredit(t, w, c, msats)
	if text := w.Told(t, c, id); !strings.Contains(text, told) {
		t.Errorf("the buyer was told %q", text)
	}
	number := nostr.Tag{"owed", strconv.FormatInt(msats, 10)}
	if !slices.ContainsFunc(w.SaidOf(t, c, id), func(ev nostr.Event) bool { return slices.Equal(ev.Tags.Find("owed"), number) }) {
		t.Errorf("no event has the tag %v", number)
	}
}

// hasCredit waits until the buyer's credit is so much.
func hasCredit(t *testing.T, w *markettest.World, c *markettest.Customer, msats int64) {
	t.Helper()
	for {
		credit, err := w.Store.CreditOf(w.Ctx, c.Key.PublicKey())
		markettest.Check(t, err)
		if credit == msats {
			return
		}
		markettest.Check(t, w.Ctx.Err())
		time.Sleep(time.Millisecond)
	}
}

// TestChainPaysInPart: what came by the end of the quote is owed.
func TestChainPaysInPart(t *testing.T) {
	w, chain, c, req := sellOnChain(t, payments.InvoicePartial, 15_000)
	job := w.Await(t, req.ID, provider.StateExpired)
	owed(t, w, c, req.ID, 15_000, "15000 msats of 21000 came in time")
	chain.comes(&job, payments.InvoiceSettled, 30_000) // the rest, too late
	owed(t, w, c, req.ID, 30_000, "15000 msats are owed to you: credit, which lowers the price of your next jobs here (it came after the job had ended)")
	chain.comes(&job, payments.InvoiceSettled, 30_000)
	owed(t, w, c, req.ID, 30_000, "")
	if d := w.Debt(t, req.ID); d.Msats != 30_000 {
		t.Errorf("%+v", d)
	}
}

// TestChainPaysLate: nothing runs, and everything is owed.
func TestChainPaysLate(t *testing.T) {
	w, chain, c, req := sellOnChain(t, payments.InvoiceOpen, 0)
	job := w.Await(t, req.ID, provider.StateExpired)
	chain.comes(&job, payments.InvoicePending, 21_000) // in no block yet
	chain.comes(&job, payments.InvoiceSettled, 21_000)
	owed(t, w, c, req.ID, 21_000, "it came after the job had ended")
	if n := w.Runner.Count(); n != 0 {
		t.Errorf("%d runs", n)
	}
}

// TestChainTakesItsTime: a payment that was there in time counts, whenever it is
// confirmed.
func TestChainTakesItsTime(t *testing.T) {
	w, chain, _, req := sellOnChain(t, payments.InvoicePending, 21_000)
	job := w.Await(t, req.ID, provider.StateQuoted)
	for time.Now().Before(job.ExpiresAt.Add(time.Second)) {
		chain.hint <- job.PaymentHash
		time.Sleep(10 * time.Millisecond)
	}
	w.Await(t, req.ID, provider.StateQuoted)
	chain.comes(&job, payments.InvoiceSettled, 21_000)
	w.Await(t, req.ID, provider.StateDelivering)
}

// TestChainNeverConfirms: a payment that was replaced may look as if it waited
// for a block for ever. The job does not, and what comes of it after all is owed.
func TestChainNeverConfirms(t *testing.T) {
	w := markettest.New(t)
	chain := newOnChain(w)
	chain.comes(nil, payments.InvoicePending, 21_000)
	w.Serve(t, func(cfg *provider.Config) {
		cfg.Wallet, cfg.LeastMsats, cfg.Limits.QuoteTTL, cfg.Limits.Unconfirmed = chain, 10_000, 3*time.Second, time.Second
		cfg.Limits.LookupEvery = 10 * time.Millisecond
	})
	c := w.NewCustomer(t, nil)
	req := w.Request(t, c.Key, markettest.SandboxInput(""), nostr.Tag{"param", "payment_mode", "prepay"})
	markettest.Check(t, c.Market.Send(w.Ctx, req))
	job := w.Await(t, req.ID, provider.StateExpired)
	if wait := time.Since(job.ExpiresAt); wait < time.Second {
		t.Errorf("given up %s after the quote's end", wait)
	}
	if text := w.Told(t, c, req.ID); !strings.Contains(text, "may have been replaced") {
		t.Errorf("told %q", text)
	}
	chain.comes(&job, payments.InvoiceSettled, 21_000)
	owed(t, w, c, req.ID, 21_000, "it came after the job had ended")
	if n := w.Runner.Count(); n != 0 {
		t.Errorf("%d runs", n)
	}
}

// TestChainCarriesNoLess: a price below what the wallet can take is refused.
func TestChainCarriesNoLess(t *testing.T) {
	w := markettest.New(t)
	chain := newOnChain(w)
	w.Serve(t, func(cfg *provider.Config) { cfg.Wallet, cfg.LeastMsats = chain, markettest.RateMsats+1 })
	c := w.NewCustomer(t, nil)
	req := w.Request(t, c.Key, markettest.SandboxInput(""), nostr.Tag{"param", "payment_mode", "prepay"})
	markettest.Check(t, c.Market.Send(w.Ctx, req))
	for !w.Store.WasRefused(req.ID) {
		markettest.Check(t, w.Ctx.Err())
		time.Sleep(time.Millisecond)
	}
	if text := w.Told(t, c, req.ID); !strings.Contains(text, "price_too_small: the price is 21000 msats") {
		t.Errorf("told %q", text)
	}
}
