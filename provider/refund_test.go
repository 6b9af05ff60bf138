package provider_test

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestFailedPrepaidJobIsRefunded: the money comes back to the invoice that the
// buyer's wallet made for it, the provider pays the routing fee, and both sides
// have it on record.
func TestFailedPrepaidJobIsRefunded(t *testing.T) {
	requirements.Covers(t, "K-48")
	w := markettest.New(t)
	w.Failing()
	w.Serve(t, w.Refunding)
	c := w.NewCustomer(t, nil)
	c.Client = c.Open(t, func(cfg *buyer.Config) { cfg.Receiver, cfg.RefundTimeout = c.Wallet, markettest.Patience })
	var told []string
	p := w.Follow(t, c, w.Prepay(t, c, "").RequestID, func(p buyer.Progress) { told = append(told, p.What) }).Failed(t, provider.CodeAgentFailed)
	if p.RefundMsats != markettest.RateMsats || buyer.RefundDue(p) || told[len(told)-1] != "refunded" {
		t.Errorf("refunded %d msats; told %v; reason %q", p.RefundMsats, told, p.Reason)
	}
	d := w.Debt(t, p.RequestID)
	if r := d.Refund; d.Msats != markettest.RateMsats || d.CreditMsats != 0 || r.End.State != payments.PaymentSucceeded || r.End.FeeMsats != markettest.FeeMsats || r.End.Preimage.Hash() != r.PaymentHash {
		t.Errorf("debt %+v, refund %+v", d, d.Refund)
	}
	w.Moved(t, c.Party, -markettest.FeeMsats, markettest.FeeMsats)
}

// TestOneRefundIsOfOnePurchase: two orders that name one invoice for their refund get
// one, and the buyer does not take it for both.
func TestOneRefundIsOfOnePurchase(t *testing.T) {
	t.Parallel()
	w := markettest.New(t)
	w.Failing()
	w.Serve(t, w.Refunding)
	c := w.NewCustomer(t, nil)
	c.Client = c.Open(t, func(cfg *buyer.Config) { cfg.Receiver, cfg.RefundTimeout = c.Wallet, markettest.Patience })
	var preimage payments.Preimage
	_, _ = rand.Read(preimage[:]) // never fails
	inv, err := c.Wallet.CreateInvoice(w.Ctx, payments.NewInvoice{
		Preimage: preimage, AmountMsats: markettest.RateMsats, Expiry: 24 * time.Hour, DescriptionHash: hashing.Bytes([]byte("back")),
	})
	markettest.Check(t, err)

	first := w.Follow(t, c, w.Prepay(t, c, inv.BOLT11).RequestID, nil).Failed(t, provider.CodeAgentFailed)
	c.Client = c.Open(t, func(cfg *buyer.Config) { cfg.Receiver, cfg.RefundTimeout = c.Wallet, time.Millisecond })
	var told []string
	second := w.Follow(t, c, w.Prepay(t, c, inv.BOLT11).RequestID, func(p buyer.Progress) { told = append(told, p.What) }).Failed(t, provider.CodeAgentFailed)
	if first.RefundMsats != markettest.RateMsats || second.RefundMsats != 0 || !buyer.RefundDue(second) || told[len(told)-1] != "refund_missing" {
		t.Errorf("refunded %d msats, and then %d; told %v", first.RefundMsats, second.RefundMsats, told)
	}
	if d := w.Debt(t, second.RequestID); d.CreditMsats != markettest.RateMsats {
		t.Errorf("owed for the second: %+v", d)
	}
}

// TestRefundIsPaidOnce: a provider that dies after recording the refund, after
// sending it, or before recording its end pays it once.
func TestRefundIsPaidOnce(t *testing.T) {
	for _, at := range []string{"recorded", "before sending", "sent", "before the end is recorded"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			w.Failing()
			payer := &dyingPayer{Client: w.Seller.Wallet, at: at, w: w}
			die := func(cfg *provider.Config) {
				cfg.Refunds = &provider.Refunds{Wallet: payer, MaxFeeMsats: markettest.FeeMsats}
			}
			if at == "recorded" {
				w.Store.StopWhen(provider.StateFailed)
			}
			w.Serve(t, die)
			c := w.NewCustomer(t, nil)
			c.Client = c.Open(t, func(cfg *buyer.Config) { cfg.Receiver, cfg.RefundTimeout = c.Wallet, markettest.Patience })
			f := w.Follow(t, c, w.Prepay(t, c, "").RequestID, nil)
			select {
			case <-w.Store.LifeOver():
			case <-w.Ctx.Done():
				t.Fatal("the provider was not stopped")
			}
			w.Serve(t, w.Refunding)
			p := f.Failed(t, provider.CodeAgentFailed)
			if d := w.Debt(t, p.RequestID); d.Refund.End.State != payments.PaymentSucceeded || p.RefundMsats != markettest.RateMsats {
				t.Errorf("refund %+v, %d msats came", d.Refund.End, p.RefundMsats)
			}
			w.Moved(t, c.Party, -markettest.FeeMsats, markettest.FeeMsats)
		})
	}
}

// dyingPayer stops the provider once, at one call.
type dyingPayer struct {
	*playnet.Client
	at   string
	w    *markettest.World
	once sync.Once
}

func (d *dyingPayer) dies(at string) {
	if d.at == at {
		d.once.Do(func() { d.w.Store.EndLife() })
	}
}

func (d *dyingPayer) SendPayment(ctx context.Context, p payments.Pay) error {
	d.dies("before sending")
	if err := ctx.Err(); err != nil {
		return err
	}
	err := d.Client.SendPayment(ctx, p)
	d.dies("sent")
	return err
}

func (d *dyingPayer) TrackPayment(ctx context.Context, h payments.Hash) (payments.Payment, error) {
	pay, err := d.Client.TrackPayment(ctx, h)
	d.dies("before the end is recorded")
	if ctx.Err() != nil {
		return pay, ctx.Err()
	}
	return pay, err
}

// invoice is one of a party's own, to name as a refund.
func invoice(t *testing.T, w *markettest.World, p *markettest.Party, msats int64, expiry time.Duration) string {
	t.Helper()
	var preimage payments.Preimage
	_, _ = rand.Read(preimage[:])
	inv, err := p.Wallet.CreateInvoice(w.Ctx, payments.NewInvoice{
		Preimage: preimage, AmountMsats: msats, Expiry: expiry, DescriptionHash: hashing.Bytes([]byte("refund")),
	})
	markettest.Check(t, err)
	return inv.BOLT11
}

// TestRefundsThatAreNotSent: whatever a request names as its refund, no more
// than was paid leaves the wallet, once; what is not sent is credit, and said.
func TestRefundsThatAreNotSent(t *testing.T) {
	requirements.Covers(t, "K-48")
	for name, tt := range map[string]struct {
		refund func(t *testing.T, w *markettest.World, c *markettest.Customer) string
		change func(*provider.Config)
		told   string

		expected string // more members of the order; the agent then does what it is told
		run      string // one of breaks
	}{
		"none named":           {refund: func(*testing.T, *markettest.World, *markettest.Customer) string { return "" }, told: "credit"},
		"not an invoice":       {refund: func(*testing.T, *markettest.World, *markettest.Customer) string { return "lnbc1garbage" }, told: "cannot be read"},
		"lud16":                {refund: func(*testing.T, *markettest.World, *markettest.Customer) string { return "me@example.com" }, told: "not to a Lightning address"},
		"no Lightning address": {refund: func(*testing.T, *markettest.World, *markettest.Customer) string { return "me@169.254.169.254" }, told: "not a Lightning address"},
		"in Taproot Assets":    {refund: func(*testing.T, *markettest.World, *markettest.Customer) string { return "tapbc1qqq" }, told: "payments in Taproot Assets have no backend here"},
		"more than came": {refund: func(t *testing.T, w *markettest.World, c *markettest.Customer) string {
			return invoice(t, w, c.Party, markettest.RateMsats+1, time.Hour)
		}, told: "not for 1 to 21000"},
		"expires at once": {refund: func(t *testing.T, w *markettest.World, c *markettest.Customer) string {
			return invoice(t, w, c.Party, markettest.RateMsats, time.Second)
		}, told: "has expired"},
		"another network":         {refund: func(*testing.T, *markettest.World, *markettest.Customer) string { return mainnetInvoice }, told: "the invoice is for mainnet"},
		"could be held for weeks": {refund: func(t *testing.T, _ *markettest.World, _ *markettest.Customer) string { return slowInvoice(t) }, told: "held for 2016 blocks"},
		"the provider's own": {
			refund: func(t *testing.T, w *markettest.World, _ *markettest.Customer) string {
				return invoice(t, w, w.Seller, markettest.RateMsats, time.Hour)
			}, told: "could not be sent",
		},
		"above the fee limit": {
			refund: func(t *testing.T, w *markettest.World, c *markettest.Customer) string {
				return invoice(t, w, c.Party, markettest.RateMsats, time.Hour)
			},
			change: func(cfg *provider.Config) { cfg.Refunds.MaxFeeMsats = markettest.FeeMsats - 1 }, told: "could not be sent",
		},
		"the buyer's own doing": { // no fees are paid for it
			refund: func(t *testing.T, w *markettest.World, c *markettest.Customer) string {
				return invoice(t, w, c.Party, markettest.RateMsats, time.Hour)
			},
			change: func(*provider.Config) {}, told: "could not be sent", expected: `,"verification":{"expected":{"exit_codes":[3]}}`,
		},
		"the buyer's commands": { // stopped at a limit
			refund: func(t *testing.T, w *markettest.World, c *markettest.Customer) string {
				return invoice(t, w, c.Party, markettest.RateMsats, time.Hour)
			},
			told: "could not be sent", run: "too much output",
		},
		"the buyer's source": { // not there to be fetched
			refund: func(t *testing.T, w *markettest.World, c *markettest.Customer) string {
				return invoice(t, w, c.Party, markettest.RateMsats, time.Hour)
			},
			told: "could not be sent", run: "no source",
		},
		"refunds are off": {
			refund: func(t *testing.T, w *markettest.World, c *markettest.Customer) string {
				return invoice(t, w, c.Party, markettest.RateMsats, time.Hour)
			},
			change: func(cfg *provider.Config) { cfg.Refunds = nil }, told: "refunds are not sent here",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			w.Failing()
			w.Serve(t, func(cfg *provider.Config) {
				w.Refunding(cfg)
				if tt.change != nil {
					tt.change(cfg)
				}
			})
			c := w.NewCustomer(t, nil)
			if tt.expected != "" {
				w.Runner.Do = nil
			}
			if tt.run != "" {
				w.Runner.Do = breaks(w.Runner)[tt.run].do
			}
			tags := nostr.Tags{{"param", "payment_mode", "prepay"}}
			if address := tt.refund(t, w, c); address != "" {
				tags = append(tags, nostr.Tag{"param", "refund", address})
			}
			req := w.Request(t, c.Key, markettest.SandboxInput(tt.expected), tags...)
			payByHand(t, w, c, req)
			w.Await(t, req.ID, provider.StateFailed)
			d := w.Debt(t, req.ID)
			if d.CreditMsats != markettest.RateMsats || d.Refund != nil && d.Refund.End.State != payments.PaymentFailed {
				t.Errorf("debt %+v, refund %+v", d, d.Refund)
			}
			if text := w.Told(t, c, req.ID); !strings.Contains(text, "21000 msats") || !strings.Contains(text, tt.told) {
				t.Errorf("the buyer was told %q", text)
			}
			w.Moved(t, c.Party, markettest.RateMsats, markettest.RateMsats+markettest.FeeMsats)
		})
	}
}

// mainnetInvoice is that of BOLT 11's specification.
const mainnetInvoice = "lnbc2500u1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdq5xysxxatsyp3k7enxv4jsxqzpu9qrsgquk0rl77nj30yxdy8j9vdx85fkpmdla2087ne0xh8nhedh8w27kyke0lp53ut353s06fv3qfegext0eh0ymjpf39tuven09sam30g4vgpfna3rh"

// payByHand publishes a request and pays what it is asked for.
func payByHand(t *testing.T, w *markettest.World, c *markettest.Customer, req nostr.Event) {
	t.Helper()
	markettest.Check(t, c.Market.Send(w.Ctx, req))
	job := w.Await(t, req.ID, provider.StateQuoted)
	for job.BOLT11 == "" {
		markettest.Check(t, w.Ctx.Err())
		time.Sleep(time.Millisecond)
		var err error
		job, err = w.Store.Job(w.Ctx, req.ID)
		markettest.Check(t, err)
	}
	markettest.Check(t, c.Wallet.SendPayment(w.Ctx, payments.Pay{BOLT11: job.BOLT11, AmountMsats: job.PriceMsats, FeeLimitMsats: markettest.FeeMsats}))
}

// TestOneRefundInvoiceForTwoJobs pays it once; the other debt is credit.
func TestOneRefundInvoiceForTwoJobs(t *testing.T) {
	w := markettest.New(t)
	w.Failing()
	w.Serve(t, w.Refunding)
	c := w.NewCustomer(t, nil)
	refund := nostr.Tag{"param", "refund", invoice(t, w, c.Party, markettest.RateMsats, time.Hour)}
	for _, n := range []string{"1", "2"} {
		req := w.Request(t, c.Key, markettest.SandboxInput(""), nostr.Tag{"param", "payment_mode", "prepay"}, refund, nostr.Tag{"t", n})
		payByHand(t, w, c, req)
		w.Await(t, req.ID, provider.StateFailed)
		d := w.Debt(t, req.ID)
		if refunded := d.Refund != nil; refunded != (n == "1") {
			t.Errorf("job %s: refund %+v", n, d.Refund)
		}
	}
	credit, err := w.Store.CreditOf(w.Ctx, c.Key.PublicKey())
	if err != nil || credit != markettest.RateMsats {
		t.Errorf("credit %d, %v", credit, err)
	}
}

// TestCreditLowersTheNextPrice: what is owed is used by the buyer's next jobs,
// comes back if they fail, and is spent once.
func TestCreditLowersTheNextPrice(t *testing.T) {
	w := markettest.New(t)
	w.Failing()
	w.Serve(t, nil)
	c, stranger := w.NewCustomer(t, nil), w.NewCustomer(t, nil)
	price := func(c *markettest.Customer, mode receipts.Mode, code provider.Code) int64 {
		t.Helper()
		f := w.Follow(t, c, w.Place(t, c, mode, markettest.SandboxInput("")).RequestID, nil)
		if code != "" {
			return w.Job(t, f.Failed(t, code).RequestID).PriceMsats
		}
		p, err := f.Wait()
		markettest.Check(t, err)
		b, err := c.Client.Bundle(w.Ctx, p.RequestID)
		markettest.Check(t, err)
		if report := receipts.Verify(b, receipts.Pins{}); report.ExitCode() != receipts.ExitProved {
			t.Errorf("%+v", report.Claims)
		}
		return w.Job(t, p.RequestID).PriceMsats
	}
	const least = 1000
	if got := price(c, receipts.ModePrepay, provider.CodeAgentFailed); got != markettest.RateMsats {
		t.Errorf("the first job costs %d", got)
	}
	if got := price(stranger, receipts.ModeHold, provider.CodeAgentFailed); got != markettest.RateMsats {
		t.Errorf("another key's job costs %d", got)
	}
	// 21,000 are owed: 20,000 are used, come back with the failure, and are used again.
	for _, code := range []provider.Code{provider.CodeAgentFailed, ""} {
		if code == "" {
			w.Runner.Becomes(nil)
		}
		if got := price(c, receipts.ModeHold, code); got != least {
			t.Errorf("the job (%s) costs %d msats", code, got)
		}
	}
	// 1,000 are left.
	if got := price(c, receipts.ModeHold, ""); got != markettest.RateMsats-1000 {
		t.Errorf("the job costs %d msats", got)
	}
	if got := price(c, receipts.ModeHold, ""); got != markettest.RateMsats {
		t.Errorf("a job without credit costs %d msats", got)
	}
}

// closed is a wallet that may not look up payments, from some call on.
type closed struct {
	*playnet.Client
	mu    sync.Mutex
	after int // lookups that still work
	sent  int
}

func (c *closed) LookupPayment(ctx context.Context, h payments.Hash) (payments.Payment, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.after--; c.after < 0 {
		return payments.Payment{}, payments.ErrUnauthorized
	}
	return c.Client.LookupPayment(ctx, h)
}

func (c *closed) SendPayment(ctx context.Context, p payments.Pay) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent++
	return c.Client.SendPayment(ctx, p)
}

// TestRefundWithAWalletThatMayNot: a wallet that may not pay is found out before
// a refund is recorded; one that may no longer tell leaves the outcome open.
func TestRefundWithAWalletThatMayNot(t *testing.T) {
	for lookups, open := range []bool{false, true} {
		w := markettest.New(t)
		w.Failing()
		wallet := &closed{Client: w.Seller.Wallet, after: lookups}
		stop := w.Serve(t, func(cfg *provider.Config) {
			cfg.Refunds = &provider.Refunds{Wallet: wallet, MaxFeeMsats: markettest.FeeMsats}
		})
		c := w.NewCustomer(t, nil)
		refund := nostr.Tag{"param", "refund", invoice(t, w, c.Party, markettest.RateMsats, time.Hour)}
		req := w.Request(t, c.Key, markettest.SandboxInput(""), nostr.Tag{"param", "payment_mode", "prepay"}, refund)
		payByHand(t, w, c, req)
		w.Await(t, req.ID, provider.StateFailed)
		stop()
		debts, err := w.Store.Debts(w.Ctx)
		markettest.Check(t, err)
		credit := map[bool]int64{false: markettest.RateMsats, true: 0}[open]
		if len(debts) != 1 || debts[0].CreditMsats != credit || (debts[0].Refund != nil) != open || open && debts[0].Refund.End != nil || wallet.sent != 0 {
			t.Errorf("after %d lookups: %+v, refund %+v, %d sent", lookups, debts, debts[0].Refund, wallet.sent)
		}
	}
}
