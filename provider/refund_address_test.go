package provider_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
)

// mailbox is a buyer's wallet that waits for refunds at an address.
type mailbox struct {
	mu  sync.Mutex
	now payments.Invoice
}

func (*mailbox) RefundAddress(context.Context) (string, error) { return refundAddress, nil }

func (m *mailbox) Refunded(_ context.Context, address string) (payments.Invoice, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if address != refundAddress {
		return payments.Invoice{}, payments.ErrNotFound
	}
	return m.now, nil
}

func (m *mailbox) is(state payments.InvoiceState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = payments.Invoice{State: state, PaidMsats: 14_000_000, Outpoints: strings.Repeat("cd", 32) + ":1", Final: state == payments.InvoiceSettled}
}

// unsure says that what is settled may still go back.
func (m *mailbox) unsure() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Final = false
}

// TestBuyerWaitsForARefundOnTheChain: the request names a fresh address of the
// wallet; what is in no block yet is told and not counted, and a later look finds
// it.
func TestBuyerWaitsForARefundOnTheChain(t *testing.T) {
	w := markettest.New(t)
	w.Failing()
	w.Serve(t, nil)
	c, box := w.NewCustomer(t, nil), &mailbox{}
	box.is(payments.InvoicePending)
	c.Client = c.Open(t, func(cfg *buyer.Config) { cfg.Chain, cfg.RefundTimeout = box, markettest.Patience })
	placed := w.Prepay(t, c, "")
	if !strings.Contains(string(placed.Request), `["param","refund","`+refundAddress+`"]`) {
		t.Errorf("the request is %s", placed.Request)
	}
	var told []string
	tell := func(p buyer.Progress) { told = append(told, p.What) }
	p := w.Follow(t, c, placed.RequestID, tell).Failed(t, provider.CodeAgentFailed)
	if p.RefundMsats != 0 || !buyer.RefundDue(p) || !slices.Contains(told, "refund_pending") {
		t.Errorf("%d msats; told %v", p.RefundMsats, told)
	}
	box.is(payments.InvoiceSettled)
	box.unsure()
	sure := c.Client
	c.Client = c.Open(t, func(cfg *buyer.Config) { cfg.Chain, cfg.RefundTimeout = box, time.Millisecond })
	if p = w.Follow(t, c, placed.RequestID, tell).Failed(t, provider.CodeAgentFailed); p.RefundMsats != 0 || !buyer.RefundDue(p) {
		t.Errorf("%d msats that are not final; told %v", p.RefundMsats, told)
	}
	c.Client = sure
	box.is(payments.InvoiceSettled)
	p = w.Follow(t, c, placed.RequestID, tell).Failed(t, provider.CodeAgentFailed)
	if p.RefundMsats != 14_000_000 || buyer.RefundDue(p) {
		t.Errorf("%d msats; told %v", p.RefundMsats, told)
	}
	c.Client = c.Open(t, func(cfg *buyer.Config) { cfg.Chain, cfg.Wallet = box, chainPayer{cfg.Wallet} })
	for _, to := range []string{"me@example.com", "lnbc1", refundAddress} {
		if _, err := c.Client.Place(w.Ctx, buyer.Order{
			Provider: w.Seller.Key.PublicKey(), SchemaID: "oa.sandbox_run.v1", Input: markettest.SandboxInput(""), MaxMsats: markettest.MaxMsats, Refund: to,
		}); err == nil || !strings.Contains(err.Error(), "refund") {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// chainPayer is a wallet that says it pays on the chain.
type chainPayer struct{ payments.Payer }

func (c chainPayer) Node(ctx context.Context) (payments.Node, error) {
	n, err := c.Payer.Node(ctx)
	n.Network = payments.Mainnet.OnChain()
	return n, err
}

// TestRefundAddressOfAnother: a request is public, so anybody can name its address.
// Who does gets no quote, in whatever spelling, and the buyer gets its refund.
func TestRefundAddressOfAnother(t *testing.T) {
	w, chain, _, order := refundsOnChain(t, 3*time.Second)
	_, req := order(refundAddress)
	job := w.Await(t, req.ID, provider.StateExpired)
	for _, address := range []string{refundAddress, strings.ToUpper(refundAddress), "bitcoin:" + refundAddress} {
		thief, theirs := order(address)
		for !w.Store.WasRefused(theirs.ID) {
			markettest.Check(t, w.Ctx.Err())
			time.Sleep(time.Millisecond)
		}
		if text := w.Told(t, thief, theirs.ID); !strings.Contains(text, "another key's request named this address first") {
			t.Errorf("%s: the stranger was told %q", address, text)
		}
	}
	chain.comes(&job, payments.InvoiceSettled, 20_000_000)
	refunded(t, w, req.ID, 1, 19_000, 300_000)
}
