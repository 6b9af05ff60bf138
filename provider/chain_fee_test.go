package provider_test

import (
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
)

// payAttempt orders a job of a provider on the chain that asks a fee for the
// attempt, of which it is seen that it was paid and no more.
func payAttempt(t *testing.T, change func(*onChain, *provider.Limits)) (*markettest.World, *onChain, *markettest.Customer, nostr.Event) {
	w := markettest.New(t)
	chain := newOnChain(w)
	chain.comes(nil, payments.InvoicePending, markettest.AttemptMsats)
	w.Serve(t, func(cfg *provider.Config) {
		markettest.Engaging(cfg)
		cfg.Wallet, cfg.LeastMsats, cfg.Limits.QuoteTTL = chain, 1_000, time.Second
		change(chain, &cfg.Limits)
	})
	c := w.NewCustomer(t, nil)
	req := w.Request(t, c.Key, markettest.SandboxInput(markettest.Expects), nostr.Tag{"param", "payment_mode", "prepay"})
	markettest.Check(t, c.Market.Send(w.Ctx, req))
	return w, chain, c, req
}

// TestChainFeeNeverConfirms: nor is a fee waited for for ever; what comes of it
// after all is owed, once.
func TestChainFeeNeverConfirms(t *testing.T) {
	w, chain, c, req := payAttempt(t, func(_ *onChain, l *provider.Limits) {
		l.Unconfirmed, l.LookupEvery = time.Second, 10*time.Millisecond
	})
	job := w.Await(t, req.ID, provider.StateExpired)
	if job.Engagement == nil || job.BOLT11 != "" {
		t.Fatalf("not the fee is asked for: %+v", job.Engagement)
	}
	if d := time.Since(job.Engagement.ExpiresAt); d < time.Second {
		t.Errorf("given up %s after the quote's end", d)
	}
	job.PaymentHash = job.Engagement.PaymentHash
	for range 3 {
		chain.comes(&job, payments.InvoiceSettled, markettest.AttemptMsats)
		owed(t, w, c, req.ID, markettest.AttemptMsats, "it came after the job had ended")
	}
	if d := w.Debt(t, req.ID); d.Msats != markettest.AttemptMsats || w.Runner.Count() != 0 {
		t.Errorf("%+v, %d runs", d, w.Runner.Count())
	}
}

// TestChainFeeIsAskedForWithPauses: past the end of its quote, too, the wallet is
// asked for a fee that waits for a block once for each piece of news.
func TestChainFeeIsAskedForWithPauses(t *testing.T) {
	w, chain, _, req := payAttempt(t, func(_ *onChain, l *provider.Limits) { l.LookupEvery = time.Hour })
	job := w.Await(t, req.ID, provider.StateQuoted)
	time.Sleep(time.Until(job.Engagement.ExpiresAt.Add(time.Millisecond)))
	chain.hint <- job.Engagement.PaymentHash
	before := chain.asked()
	const news = 50
	for range news {
		chain.hint <- job.Engagement.PaymentHash
	}
	if n := chain.asked() - before; n > news+2 {
		t.Errorf("asked %d times for %d pieces of news", n, news)
	}
}

// TestChainPaysLateWithItsFee: the fee for an attempt that was not made is owed
// as the quote ends, and beside it what comes later.
func TestChainPaysLateWithItsFee(t *testing.T) {
	w, chain, c, req := payAttempt(t, func(chain *onChain, _ *provider.Limits) {
		chain.comes(nil, payments.InvoiceOpen, 0)
		chain.feesPaid = true
	})
	job := w.Await(t, req.ID, provider.StateExpired)
	if job.Engagement.Receipt == nil {
		t.Fatal("the fee was not paid in time")
	}
	owed(t, w, c, req.ID, markettest.AttemptMsats, "the invoice lapsed unpaid")
	for range 2 {
		chain.comes(&job, payments.InvoiceSettled, markettest.RateMsats)
		owed(t, w, c, req.ID, markettest.AttemptMsats+markettest.RateMsats, "it came after the job had ended")
	}
}
