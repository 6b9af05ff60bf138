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
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// refunding lets the provider pay failed prepaid jobs back.
func (w *world) refunding(cfg *provider.Config) {
	cfg.Refunds = &provider.Refunds{Wallet: w.seller.wallet, MaxFeeMsats: feeMsats}
}

// failing makes every run fail.
func (w *world) failing() { w.runner.do = breaks(w.runner)["agent fails"].do }

// prepay places a prepaid job of the usual price that asks for its refund.
func (w *world) prepay(t *testing.T, c *customer, refund string) buyer.Purchase {
	t.Helper()
	p, err := c.client.Place(w.ctx, buyer.Order{
		Provider: w.seller.key.PublicKey(), SchemaID: "oa.sandbox_run.v1", Input: order(""), MaxMsats: maxMsats, Mode: receipts.ModePrepay,
		Announced: &buyer.Listing{
			BaseMsats: map[string]int64{"oa.sandbox_run.v1": 0}, PerMinuteMsats: rateMsats,
		}, Refund: refund,
	})
	check(t, err)
	return p
}

// debt waits until the provider's refund of the job has ended, and returns it.
func (w *world) debt(t *testing.T, id string) provider.Debt {
	t.Helper()
	for {
		change := w.store.changed()
		debts, err := w.store.Debts(w.ctx)
		check(t, err)
		for _, d := range debts {
			if d.RequestID == id && (d.Refund == nil || d.Refund.End != nil) {
				return d
			}
		}
		select {
		case <-change:
		case <-w.ctx.Done():
			t.Fatalf("no end of the refund: %+v", debts)
		}
	}
}

// TestFailedPrepaidJobIsRefunded: the money comes back to the invoice that the
// buyer's wallet made for it, the provider pays the routing fee, and both sides
// have it on record.
func TestFailedPrepaidJobIsRefunded(t *testing.T) {
	requirements.Covers(t, "K-48")
	w := newWorld(t)
	w.failing()
	w.serve(t, w.refunding)
	c := w.customer(t, nil)
	c.client = c.open(t, func(cfg *buyer.Config) { cfg.Receiver, cfg.RefundTimeout = c.wallet, patience })
	var told []string
	p := w.follow(t, c, w.prepay(t, c, "").RequestID, func(p buyer.Progress) { told = append(told, p.What) }).failed(t, provider.CodeAgentFailed)
	if p.RefundMsats != rateMsats || buyer.RefundDue(p) || told[len(told)-1] != "refunded" {
		t.Errorf("refunded %d msats; told %v; reason %q", p.RefundMsats, told, p.Reason)
	}
	d := w.debt(t, p.RequestID)
	if r := d.Refund; d.Msats != rateMsats || d.CreditMsats != 0 || r.End.State != payments.PaymentSucceeded || r.End.FeeMsats != feeMsats || r.End.Preimage.Hash() != r.PaymentHash {
		t.Errorf("debt %+v, refund %+v", d, d.Refund)
	}
	w.moved(t, c.party, -feeMsats, feeMsats)
}

// TestOneRefundIsOfOnePurchase: two orders that name one invoice for their refund get
// one, and the buyer does not take it for both.
func TestOneRefundIsOfOnePurchase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.failing()
	w.serve(t, w.refunding)
	c := w.customer(t, nil)
	c.client = c.open(t, func(cfg *buyer.Config) { cfg.Receiver, cfg.RefundTimeout = c.wallet, patience })
	var preimage payments.Preimage
	_, _ = rand.Read(preimage[:]) // never fails
	inv, err := c.wallet.CreateInvoice(w.ctx, payments.NewInvoice{
		Preimage: preimage, AmountMsats: rateMsats, Expiry: 24 * time.Hour, DescriptionHash: hashing.Bytes([]byte("back")),
	})
	check(t, err)

	first := w.follow(t, c, w.prepay(t, c, inv.BOLT11).RequestID, nil).failed(t, provider.CodeAgentFailed)
	c.client = c.open(t, func(cfg *buyer.Config) { cfg.Receiver, cfg.RefundTimeout = c.wallet, time.Millisecond })
	var told []string
	second := w.follow(t, c, w.prepay(t, c, inv.BOLT11).RequestID, func(p buyer.Progress) { told = append(told, p.What) }).failed(t, provider.CodeAgentFailed)
	if first.RefundMsats != rateMsats || second.RefundMsats != 0 || !buyer.RefundDue(second) || told[len(told)-1] != "refund_missing" {
		t.Errorf("refunded %d msats, and then %d; told %v", first.RefundMsats, second.RefundMsats, told)
	}
	if d := w.debt(t, second.RequestID); d.CreditMsats != rateMsats {
		t.Errorf("owed for the second: %+v", d)
	}
}

// TestRefundIsPaidOnce: a provider that dies after recording the refund, after
// sending it, or before recording its end pays it once.
func TestRefundIsPaidOnce(t *testing.T) {
	for _, at := range []string{"recorded", "before sending", "sent", "before the end is recorded"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.failing()
			payer := &dyingPayer{Client: w.seller.wallet, at: at, w: w}
			die := func(cfg *provider.Config) { cfg.Refunds = &provider.Refunds{Wallet: payer, MaxFeeMsats: feeMsats} }
			if at == "recorded" {
				w.store.stopWhen(provider.StateFailed)
			}
			w.serve(t, die)
			c := w.customer(t, nil)
			c.client = c.open(t, func(cfg *buyer.Config) { cfg.Receiver, cfg.RefundTimeout = c.wallet, patience })
			f := w.follow(t, c, w.prepay(t, c, "").RequestID, nil)
			select {
			case <-w.store.lifeOver():
			case <-w.ctx.Done():
				t.Fatal("the provider was not stopped")
			}
			w.serve(t, w.refunding)
			p := f.failed(t, provider.CodeAgentFailed)
			if d := w.debt(t, p.RequestID); d.Refund.End.State != payments.PaymentSucceeded || p.RefundMsats != rateMsats {
				t.Errorf("refund %+v, %d msats came", d.Refund.End, p.RefundMsats)
			}
			w.moved(t, c.party, -feeMsats, feeMsats)
		})
	}
}

// dyingPayer stops the provider once, at one call.
type dyingPayer struct {
	*playnet.Client
	at   string
	w    *world
	once sync.Once
}

func (d *dyingPayer) dies(at string) {
	if d.at == at {
		d.once.Do(func() { d.w.store.end() })
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
func (w *world) invoice(t *testing.T, p *party, msats int64, expiry time.Duration) string {
	t.Helper()
	var preimage payments.Preimage
	_, _ = rand.Read(preimage[:])
	inv, err := p.wallet.CreateInvoice(w.ctx, payments.NewInvoice{
		Preimage: preimage, AmountMsats: msats, Expiry: expiry, DescriptionHash: hashing.Bytes([]byte("refund")),
	})
	check(t, err)
	return inv.BOLT11
}

// TestRefundsThatAreNotSent: whatever a request names as its refund, no more
// than was paid leaves the wallet, once; what is not sent is credit, and said.
func TestRefundsThatAreNotSent(t *testing.T) {
	requirements.Covers(t, "K-48")
	for name, tt := range map[string]struct {
		refund func(t *testing.T, w *world, c *customer) string
		change func(*provider.Config)
		told   string

		expected string // more members of the order; the agent then does what it is told
		run      string // one of breaks
	}{
		"none named":              {refund: func(*testing.T, *world, *customer) string { return "" }, told: "credit"},
		"not an invoice":          {refund: func(*testing.T, *world, *customer) string { return "lnbc1garbage" }, told: "cannot be read"},
		"lud16":                   {refund: func(*testing.T, *world, *customer) string { return "me@169.254.169.254" }, told: "not to a Lightning address"},
		"in Taproot Assets":       {refund: func(*testing.T, *world, *customer) string { return "tapbc1qqq" }, told: "not a Taproot Assets address"},
		"more than came":          {refund: func(t *testing.T, w *world, c *customer) string { return w.invoice(t, c.party, rateMsats+1, time.Hour) }, told: "not for 1 to 21000"},
		"expires at once":         {refund: func(t *testing.T, w *world, c *customer) string { return w.invoice(t, c.party, rateMsats, time.Second) }, told: "has expired"},
		"another network":         {refund: func(*testing.T, *world, *customer) string { return mainnetInvoice }, told: "refund invoice is for mainnet"},
		"could be held for weeks": {refund: func(t *testing.T, _ *world, _ *customer) string { return slowInvoice(t) }, told: "held for 2016 blocks"},
		"the provider's own": {
			refund: func(t *testing.T, w *world, _ *customer) string { return w.invoice(t, w.seller, rateMsats, time.Hour) }, told: "could not be sent",
		},
		"above the fee limit": {
			refund: func(t *testing.T, w *world, c *customer) string { return w.invoice(t, c.party, rateMsats, time.Hour) },
			change: func(cfg *provider.Config) { cfg.Refunds.MaxFeeMsats = feeMsats - 1 }, told: "could not be sent",
		},
		"the buyer's own doing": { // no fees are paid for it
			refund: func(t *testing.T, w *world, c *customer) string { return w.invoice(t, c.party, rateMsats, time.Hour) },
			change: func(*provider.Config) {}, told: "could not be sent", expected: `,"verification":{"expected":{"exit_codes":[3]}}`,
		},
		"the buyer's commands": { // stopped at a limit
			refund: func(t *testing.T, w *world, c *customer) string { return w.invoice(t, c.party, rateMsats, time.Hour) },
			told:   "could not be sent", run: "too much output",
		},
		"the buyer's source": { // not there to be fetched
			refund: func(t *testing.T, w *world, c *customer) string { return w.invoice(t, c.party, rateMsats, time.Hour) },
			told:   "could not be sent", run: "no source",
		},
		"refunds are off": {
			refund: func(t *testing.T, w *world, c *customer) string { return w.invoice(t, c.party, rateMsats, time.Hour) },
			change: func(cfg *provider.Config) { cfg.Refunds = nil }, told: "refunds are not sent here",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.failing()
			w.serve(t, func(cfg *provider.Config) {
				w.refunding(cfg)
				if tt.change != nil {
					tt.change(cfg)
				}
			})
			c := w.customer(t, nil)
			if tt.expected != "" {
				w.runner.do = nil
			}
			if tt.run != "" {
				w.runner.do = breaks(w.runner)[tt.run].do
			}
			tags := nostr.Tags{{"param", "payment_mode", "prepay"}}
			if address := tt.refund(t, w, c); address != "" {
				tags = append(tags, nostr.Tag{"param", "refund", address})
			}
			req := w.request(t, c.key, order(tt.expected), tags...)
			w.payByHand(t, c, req)
			w.await(t, req.ID, provider.StateFailed)
			d := w.debt(t, req.ID)
			if d.CreditMsats != rateMsats || d.Refund != nil && d.Refund.End.State != payments.PaymentFailed {
				t.Errorf("debt %+v, refund %+v", d, d.Refund)
			}
			if text := w.told(t, c, req.ID); !strings.Contains(text, "21000 msats") || !strings.Contains(text, tt.told) {
				t.Errorf("the buyer was told %q", text)
			}
			w.moved(t, c.party, rateMsats, rateMsats+feeMsats)
		})
	}
}

// mainnetInvoice is that of BOLT 11's specification.
const mainnetInvoice = "lnbc2500u1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdq5xysxxatsyp3k7enxv4jsxqzpu9qrsgquk0rl77nj30yxdy8j9vdx85fkpmdla2087ne0xh8nhedh8w27kyke0lp53ut353s06fv3qfegext0eh0ymjpf39tuven09sam30g4vgpfna3rh"

// payByHand publishes a request and pays what it is asked for.
func (w *world) payByHand(t *testing.T, c *customer, req nostr.Event) {
	t.Helper()
	check(t, c.market.Send(w.ctx, req))
	job := w.await(t, req.ID, provider.StateQuoted)
	for job.BOLT11 == "" {
		check(t, w.ctx.Err())
		time.Sleep(time.Millisecond)
		var err error
		job, err = w.store.Job(w.ctx, req.ID)
		check(t, err)
	}
	check(t, c.wallet.SendPayment(w.ctx, payments.Pay{BOLT11: job.BOLT11, AmountMsats: job.PriceMsats, FeeLimitMsats: feeMsats}))
}

// told joins the texts of the feedback of a request.
func (w *world) told(t *testing.T, c *customer, id string) (text string) {
	t.Helper()
	for _, ev := range w.saidOf(t, c, id) {
		if status := ev.Tags.Find("status"); len(status) > 2 {
			text += status[2] + "\n"
		}
	}
	return text
}

// saidOf is the feedback on a job: what was sent, and what is to be.
func (w *world) saidOf(t *testing.T, c *customer, id string) []nostr.Event {
	t.Helper()
	pending, err := w.store.PendingEvents(w.ctx, time.Hour, 100)
	check(t, err)
	events, err := c.market.Query(w.ctx, nostr.Filter{Kinds: []int{7000}, Tags: nostr.TagMap{"e": {id}}})
	check(t, err)
	for _, p := range pending {
		var ev nostr.Event
		if ev.UnmarshalJSON(p.Event) == nil && ev.Tags.ContainsAny("e", []string{id}) {
			events = append(events, ev)
		}
	}
	return events
}

// TestOneRefundInvoiceForTwoJobs pays it once; the other debt is credit.
func TestOneRefundInvoiceForTwoJobs(t *testing.T) {
	w := newWorld(t)
	w.failing()
	w.serve(t, w.refunding)
	c := w.customer(t, nil)
	refund := nostr.Tag{"param", "refund", w.invoice(t, c.party, rateMsats, time.Hour)}
	for _, n := range []string{"1", "2"} {
		req := w.request(t, c.key, order(""), nostr.Tag{"param", "payment_mode", "prepay"}, refund, nostr.Tag{"t", n})
		w.payByHand(t, c, req)
		w.await(t, req.ID, provider.StateFailed)
		d := w.debt(t, req.ID)
		if refunded := d.Refund != nil; refunded != (n == "1") {
			t.Errorf("job %s: refund %+v", n, d.Refund)
		}
	}
	credit, err := w.store.CreditOf(w.ctx, c.key.PublicKey())
	if err != nil || credit != rateMsats {
		t.Errorf("credit %d, %v", credit, err)
	}
}

// TestCreditLowersTheNextPrice: what is owed is used by the buyer's next jobs,
// comes back if they fail, and is spent once.
func TestCreditLowersTheNextPrice(t *testing.T) {
	w := newWorld(t)
	w.failing()
	w.serve(t, nil)
	c, stranger := w.customer(t, nil), w.customer(t, nil)
	price := func(c *customer, mode receipts.Mode, code provider.Code) int64 {
		t.Helper()
		f := w.follow(t, c, w.place(t, c, mode, order("")).RequestID, nil)
		if code != "" {
			return w.job(t, f.failed(t, code).RequestID).PriceMsats
		}
		p, err := f.wait()
		check(t, err)
		b, err := c.client.Bundle(w.ctx, p.RequestID)
		check(t, err)
		if report := receipts.Verify(b, receipts.Pins{}); report.ExitCode() != receipts.ExitProved {
			t.Errorf("%+v", report.Claims)
		}
		return w.job(t, p.RequestID).PriceMsats
	}
	const least = 1000
	if got := price(c, receipts.ModePrepay, provider.CodeAgentFailed); got != rateMsats {
		t.Errorf("the first job costs %d", got)
	}
	if got := price(stranger, receipts.ModeHold, provider.CodeAgentFailed); got != rateMsats {
		t.Errorf("another key's job costs %d", got)
	}
	// 21,000 are owed: 20,000 are used, come back with the failure, and are used again.
	for _, code := range []provider.Code{provider.CodeAgentFailed, ""} {
		if code == "" {
			w.runner.mu.Lock()
			w.runner.do = nil
			w.runner.mu.Unlock()
		}
		if got := price(c, receipts.ModeHold, code); got != least {
			t.Errorf("the job (%s) costs %d msats", code, got)
		}
	}
	// 1,000 are left.
	if got := price(c, receipts.ModeHold, ""); got != rateMsats-1000 {
		t.Errorf("the job costs %d msats", got)
	}
	if got := price(c, receipts.ModeHold, ""); got != rateMsats {
		t.Errorf("a job without credit costs %d msats", got)
	}
}

func (w *world) job(t *testing.T, id string) provider.Job {
	t.Helper()
	job, err := w.store.Job(w.ctx, id)
	check(t, err)
	return job
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
		w := newWorld(t)
		w.failing()
		wallet := &closed{Client: w.seller.wallet, after: lookups}
		stop := w.serve(t, func(cfg *provider.Config) { cfg.Refunds = &provider.Refunds{Wallet: wallet, MaxFeeMsats: feeMsats} })
		c := w.customer(t, nil)
		refund := nostr.Tag{"param", "refund", w.invoice(t, c.party, rateMsats, time.Hour)}
		req := w.request(t, c.key, order(""), nostr.Tag{"param", "payment_mode", "prepay"}, refund)
		w.payByHand(t, c, req)
		w.await(t, req.ID, provider.StateFailed)
		stop()
		debts, err := w.store.Debts(w.ctx)
		check(t, err)
		credit := map[bool]int64{false: rateMsats, true: 0}[open]
		if len(debts) != 1 || debts[0].CreditMsats != credit || (debts[0].Refund != nil) != open || open && debts[0].Refund.End != nil || wallet.sent != 0 {
			t.Errorf("after %d lookups: %+v, refund %+v, %d sent", lookups, debts, debts[0].Refund, wallet.sent)
		}
	}
}
