package provider_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// forgetful is a wallet that drops its canceled invoices, as an lnd with
// gc-canceled-invoices-on-the-fly does.
type forgetful struct{ *playnet.Client }

func (f forgetful) LookupInvoice(ctx context.Context, hash payments.Hash) (payments.Invoice, error) {
	inv, err := f.Client.LookupInvoice(ctx, hash)
	if err == nil && inv.State == payments.InvoiceCanceled {
		return payments.Invoice{}, payments.ErrNotFound
	}
	return inv, err
}

func (f forgetful) CancelInvoice(ctx context.Context, hash payments.Hash) error {
	if _, err := f.LookupInvoice(ctx, hash); err != nil {
		return err
	}
	return f.Client.CancelInvoice(ctx, hash)
}

func forgets(w *world) func(*provider.Config) {
	return func(cfg *provider.Config) { cfg.Wallet = forgetful{w.seller.wallet} }
}

// TestForgottenInvoice: an invoice of ours that the wallet knows no more was
// canceled. Its job ends, and takes no place among the unpaid for ever.
func TestForgottenInvoice(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePrepay} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.serve(t, func(cfg *provider.Config) {
				forgets(w)(cfg)
				cfg.Limits.QuoteTTL = time.Second
				cfg.Limits.UnpaidPerBuyer = 1
			})
			c := w.customer(t, nil)
			for range 2 {
				p := w.place(t, c, mode, order(""))
				check(t, c.send(w.ctx, p.Request))
				if job := w.await(t, p.RequestID, provider.StateExpired); job.Reason.Code != provider.CodePaymentExpired {
					t.Errorf("job ended for %s", job.Reason)
				}
			}
			w.moved(t, c.party, 0, 0)
		})
	}
}

// TestForgottenAfterCancel: what the buyer cancels, and what an agent fails, ends
// too, and the buyer is told.
func TestForgottenAfterCancel(t *testing.T) {
	w := newWorld(t)
	w.runner.do = func(context.Context, provider.Run) (provider.Outcome, error) {
		return provider.Outcome{}, &provider.RunError{Reason: provider.Reason{Code: provider.CodeAgentFailed, Detail: "it fell over"}}
	}
	w.serve(t, forgets(w))
	c := w.customer(t, nil)
	p := w.place(t, c, receipts.ModeHold, order(""))
	check(t, c.send(w.ctx, p.Request))
	w.await(t, p.RequestID, provider.StateQuoted)
	check(t, c.client.Cancel(w.ctx, p.RequestID))
	w.await(t, p.RequestID, provider.StateCanceled)

	p = w.place(t, c, receipts.ModeHold, order(""))
	w.follow(t, c, p.RequestID, nil).failed(t, provider.CodeAgentFailed)
	w.moved(t, c.party, 0, 0)
}

// TestForgottenPostpay: a result in boxes that its buyer never pays for.
func TestForgottenPostpay(t *testing.T) {
	w := newWorld(t)
	w.serve(t, func(cfg *provider.Config) {
		forgets(w)(cfg)
		cfg.Limits.PostpayTTL = 2 * time.Second
	})
	c := w.customer(t, nil)
	p := w.place(t, c, receipts.ModePostpay, order(""))
	check(t, c.send(w.ctx, p.Request)) // and nobody looks at what comes of it
	if job := w.await(t, p.RequestID, provider.StateFailed); job.Reason.Code != provider.CodeUnpaid {
		t.Errorf("job ended for %s", job.Reason)
	}
}

// TestAnotherWallet: a provider is started with another wallet while a job waits
// for a payment to the first. What came there is neither lost nor taken for unpaid:
// the job waits, in nobody's way, and goes on once the first is back.
func TestAnotherWallet(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePrepay} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			one := func(cfg *provider.Config) { cfg.Limits.UnpaidPerBuyer, cfg.Limits.RefusalsPerMin = 1, 10_000 }
			stop := w.serve(t, one)
			c := w.customer(t, nil)
			sent := make(chan struct{})
			c.client = c.open(t, func(cfg *buyer.Config) {
				cfg.Wallet = &gated{Client: c.wallet, beforeSend: stop, afterSend: sync.OnceFunc(func() { close(sent) })}
			})
			p := w.place(t, c, mode, order(""))
			f := w.follow(t, c, p.RequestID, nil)
			<-sent

			other := w.party(t, "another-wallet")
			stop = w.serve(t, func(cfg *provider.Config) {
				one(cfg)
				cfg.Wallet = other.wallet
			})
			for admitted := false; !admitted; { // as soon as the first job has been looked into
				next := w.place(t, c, mode, order(""))
				check(t, c.send(w.ctx, next.Request))
				admitted = w.answered(t, next.RequestID)
			}
			if job := w.await(t, p.RequestID, provider.StateQuoted); job.Payment != nil {
				t.Errorf("payment %+v", job.Payment)
			}
			stop()

			w.serve(t, one)
			w.sold(t, c, f, mode)
			w.moved(t, c.party, rateMsats, rateMsats+feeMsats)
		})
	}
}

// answered waits until a request was taken, or refused: false.
func (w *world) answered(t *testing.T, id string) bool {
	t.Helper()
	for {
		change := w.store.changed()
		if _, err := w.store.Job(w.ctx, id); err == nil || w.store.wasRefused(id) {
			return !w.store.wasRefused(id)
		}
		select {
		case <-change:
		case <-w.ctx.Done():
			t.Fatal("the request was not answered")
		}
	}
}
