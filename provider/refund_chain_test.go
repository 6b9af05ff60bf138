package provider_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/destination"
	"github.com/lightwork-market/lightwork/provider"
)

const (
	planFee = 1_000_000 // msats that a refund on the chain is estimated at
	realFee = 700_000   // and costs
)

// purse pays addresses: payments/onchain is tested against a real chain.
type purse struct {
	payments.Payer

	mu   sync.Mutex
	paid map[payments.Hash]payments.Payment
}

func (*purse) PlanRefund(_ context.Context, address string) (payments.ChainPlan, error) {
	u, err := destination.ParseURI(address, payments.Simnet)
	if err != nil {
		return payments.ChainPlan{}, payments.ErrBadRequest
	}
	return payments.ChainPlan{Address: u.Address, Hash: payments.Hash(u.To.Program), FeeMsats: planFee}, nil
}

func (p *purse) SendPayment(_ context.Context, pay payments.Pay) error {
	u, err := destination.ParseURI(pay.BOLT11, payments.Simnet)
	if err != nil || u.Sats*1000 != pay.AmountMsats || pay.FeeLimitMsats < realFee {
		return payments.ErrBadRequest
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	hash := payments.Hash(u.To.Program)
	p.paid[hash] = payments.Payment{
		Hash: hash, State: payments.PaymentSucceeded, AmountMsats: pay.AmountMsats, FeeMsats: realFee, Outpoints: strings.Repeat("cd", 32) + ":1",
	}
	return nil
}

func (p *purse) LookupPayment(_ context.Context, hash payments.Hash) (payments.Payment, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pay, ok := p.paid[hash]; ok {
		return pay, nil
	}
	return payments.Payment{}, payments.ErrNotFound
}

func (p *purse) TrackPayment(ctx context.Context, hash payments.Hash) (payments.Payment, error) {
	return p.LookupPayment(ctx, hash)
}

// Addresses of the buyer's, whose programs are of 32 bytes: the purse's hashes.
const (
	refundAddress = "sb1qqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqs7u9z70"
	otherAddress  = "sb1qqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqn2z9t8"
)

// refundsOnChain serves on the chain with a purse, and orders jobs whose requests
// name an address for refunds.
func refundsOnChain(t *testing.T, ttl time.Duration) (*markettest.World, *onChain, *purse, func(address string) (*markettest.Customer, nostr.Event)) {
	w := markettest.New(t)
	chain, pays := newOnChain(w), &purse{paid: map[payments.Hash]payments.Payment{}}
	w.Serve(t, func(cfg *provider.Config) {
		cfg.Wallet, cfg.LeastMsats, cfg.Limits.QuoteTTL = chain, 10_000, ttl
		cfg.Refunds = &provider.Refunds{Wallet: pays, MaxFeeMsats: 2_000_000, Chain: pays}
	})
	return w, chain, pays, func(address string) (*markettest.Customer, nostr.Event) {
		c := w.NewCustomer(t, nil)
		return c, prepays(t, c, w, address)
	}
}

// prepays sends a request whose refund is to go to the address.
func prepays(t *testing.T, c *markettest.Customer, w *markettest.World, address string, more ...nostr.Tag) nostr.Event {
	t.Helper()
	tags := append(more, nostr.Tag{"param", "payment_mode", "prepay"}, nostr.Tag{"param", "refund", address})
	req := w.Request(t, c.Key, markettest.SandboxInput(""), tags...)
	markettest.Check(t, c.Market.Send(w.Ctx, req))
	return req
}

// refunded waits for the n-th attempt and holds it against what it should have
// sent and left as credit.
func refunded(t *testing.T, w *markettest.World, id string, n int, sentSats, leftMsats int64) provider.Debt {
	t.Helper()
	d := attempt(t, w, id, n)
	if u, err := destination.ParseURI(d.Refund.BOLT11, payments.Simnet); err != nil || u.Sats != sentSats ||
		d.Refund.End.State != payments.PaymentSucceeded || d.Refund.End.Outpoints == "" || d.CreditMsats != leftMsats {
		t.Errorf("debt %+v, refund %+v, its end %+v; want %d sat sent, %d msats left", d, d.Refund, d.Refund.End, sentSats, leftMsats)
	}
	return d
}

// TestChainRefundOfAPart: what came in part is sent to the address, less the fee;
// of that, what the miners did not take is credit. What comes later is credit,
// which the operator can have sent to another address.
func TestChainRefundOfAPart(t *testing.T) {
	requirements.Covers(t, "K-48")
	w, chain, pays, order := refundsOnChain(t, 3*time.Second)
	chain.comes(nil, payments.InvoicePartial, 15_000_000)
	c, req := order(refundAddress)
	refunded(t, w, req.ID, 1, 14_000, 300_000)
	chain.comes(new(w.Await(t, req.ID, provider.StateExpired)), payments.InvoiceSettled, 40_000_000)
	hasCredit(t, w, c, 25_300_000)
	if _, err := w.Selling.RetryRefund(w.Ctx, req.ID, refundAddress); err == nil {
		t.Error("the same address is to be paid again")
	}
	_, err := w.Selling.RetryRefund(w.Ctx, req.ID, otherAddress)
	markettest.Check(t, err)
	refunded(t, w, req.ID, 2, 25_300, 0) // the operator pays the fee
	if _, err := w.Selling.RetryRefund(w.Ctx, req.ID, otherAddress); err == nil {
		t.Error("a debt that is settled is to be paid")
	}
	if len(pays.paid) != 2 {
		t.Errorf("%d payments", len(pays.paid))
	}
}

// TestChainRefundOfAFailure: a failure of the provider's own costs it the fee.
func TestChainRefundOfAFailure(t *testing.T) {
	w, chain, _, order := refundsOnChain(t, time.Hour)
	w.Failing()
	chain.comes(nil, payments.InvoiceSettled, 100_000_000)
	_, req := order(refundAddress)
	w.Await(t, req.ID, provider.StateFailed)
	refunded(t, w, req.ID, 1, 100_000, 0)
}

// TestChainRefundOfWhatCameLate, which is also sent where a job had ended.
func TestChainRefundOfWhatCameLate(t *testing.T) {
	w, chain, _, order := refundsOnChain(t, 3*time.Second)
	_, req := order(refundAddress)
	job := w.Await(t, req.ID, provider.StateExpired)
	chain.comes(&job, payments.InvoiceSettled, 20_000_000)
	refunded(t, w, req.ID, 1, 19_000, 300_000)
}

// TestChainRefundsThatStayCredit: what the miners would eat, what goes to no
// address of this chain, and to one that another job of the buyer's has named.
func TestChainRefundsThatStayCredit(t *testing.T) {
	w, chain, pays, order := refundsOnChain(t, 3*time.Second)
	chain.comes(nil, payments.InvoicePartial, 3_999_000)
	c, req := order(otherAddress)
	owed(t, w, c, req.ID, 3_999_000, "credit, which lowers the price of your next jobs here (the miners would take about 1000000 msats of it)")
	chain.comes(nil, payments.InvoicePartial, 9_000_000)
	for address, why := range map[string]string{
		"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4": "a segwit address of this chain is needed", "me@example.com": "a segwit address of this chain is needed",
	} {
		c, req := order(address)
		owed(t, w, c, req.ID, 9_000_000, why)
	}
	c, first := order(refundAddress)
	refunded(t, w, first.ID, 1, 8_000, 300_000)
	second := prepays(t, c, w, refundAddress, nostr.Tag{"t", "another"})
	hasCredit(t, w, c, 9_300_000)
	if text := w.Told(t, c, second.ID); !strings.Contains(text, "named before") {
		t.Errorf("the buyer was told %q", text)
	}
	if len(pays.paid) != 1 {
		t.Errorf("%d payments", len(pays.paid))
	}
}

// TestChainRefundOfAFortune: who pays far more than the price, late or too much,
// gets no more of it back at once than confirmations are for; the operator can
// send the rest.
func TestChainRefundOfAFortune(t *testing.T) {
	w, chain, pays, order := refundsOnChain(t, 3*time.Second)
	_, req := order(refundAddress)
	job := w.Await(t, req.ID, provider.StateExpired)
	chain.comes(&job, payments.InvoiceSettled, 5_000_000_000)
	refunded(t, w, req.ID, 1, 999_000, 4_000_300_000)
	_, err := w.Selling.RetryRefund(w.Ctx, req.ID, otherAddress)
	markettest.Check(t, err)
	refunded(t, w, req.ID, 2, 4_000_300, 0)
	if len(pays.paid) != 2 {
		t.Errorf("%d payments", len(pays.paid))
	}
}
