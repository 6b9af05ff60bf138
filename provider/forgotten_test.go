package provider_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
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

func forgets(w *markettest.World) func(*provider.Config) {
	return func(cfg *provider.Config) { cfg.Wallet = forgetful{w.Seller.Wallet} }
}

// TestForgottenInvoice: an invoice of ours that the wallet knows no more was
// canceled. Its job ends, and takes no place among the unpaid for ever.
func TestForgottenInvoice(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePrepay} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			w.Serve(t, func(cfg *provider.Config) {
				forgets(w)(cfg)
				cfg.Limits.QuoteTTL = time.Second
				cfg.Limits.UnpaidPerBuyer = 1
			})
			c := w.NewCustomer(t, nil)
			for range 2 {
				p := w.Place(t, c, mode, markettest.SandboxInput(""))
				markettest.Check(t, c.SendSigned(w.Ctx, p.Request))
				if job := w.Await(t, p.RequestID, provider.StateExpired); job.Reason.Code != provider.CodePaymentExpired {
					t.Errorf("job ended for %s", job.Reason)
				}
			}
			w.Moved(t, c.Party, 0, 0)
		})
	}
}

// TestForgottenAfterCancel: what the buyer cancels, and what an agent fails, ends
// too, and the buyer is told.
func TestForgottenAfterCancel(t *testing.T) {
	w := markettest.New(t)
	w.Runner.Do = func(context.Context, provider.Run) (provider.Outcome, error) {
		return provider.Outcome{}, &provider.RunError{Reason: provider.Reason{Code: provider.CodeAgentFailed, Detail: "it fell over"}}
	}
	w.Serve(t, forgets(w))
	c := w.NewCustomer(t, nil)
	p := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
	markettest.Check(t, c.SendSigned(w.Ctx, p.Request))
	w.Await(t, p.RequestID, provider.StateQuoted)
	markettest.Check(t, c.Client.Cancel(w.Ctx, p.RequestID))
	w.Await(t, p.RequestID, provider.StateCanceled)

	p = w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
	w.Follow(t, c, p.RequestID, nil).Failed(t, provider.CodeAgentFailed)
	w.Moved(t, c.Party, 0, 0)
}

// TestForgottenPostpay: a result in boxes that its buyer never pays for.
func TestForgottenPostpay(t *testing.T) {
	w := markettest.New(t)
	w.Serve(t, func(cfg *provider.Config) {
		forgets(w)(cfg)
		cfg.Limits.PostpayTTL = 2 * time.Second
	})
	c := w.NewCustomer(t, nil)
	p := w.Place(t, c, receipts.ModePostpay, markettest.SandboxInput(""))
	markettest.Check(t, c.SendSigned(w.Ctx, p.Request)) // and nobody looks at what comes of it
	if job := w.Await(t, p.RequestID, provider.StateFailed); job.Reason.Code != provider.CodeUnpaid {
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
			w := markettest.New(t)
			one := func(cfg *provider.Config) { cfg.Limits.UnpaidPerBuyer, cfg.Limits.RefusalsPerMin = 1, 10_000 }
			stop := w.Serve(t, one)
			c := w.NewCustomer(t, nil)
			sent := make(chan struct{})
			c.Client = c.Open(t, func(cfg *buyer.Config) {
				cfg.Wallet = &markettest.GatedWallet{Client: c.Wallet, BeforeSend: stop, AfterSend: sync.OnceFunc(func() { close(sent) })}
			})
			p := w.Place(t, c, mode, markettest.SandboxInput(""))
			f := w.Follow(t, c, p.RequestID, nil)
			<-sent

			other := w.NewParty(t, "another-wallet")
			stop = w.Serve(t, func(cfg *provider.Config) {
				one(cfg)
				cfg.Wallet = other.Wallet
			})
			for admitted := false; !admitted; { // as soon as the first job has been looked into
				next := w.Place(t, c, mode, markettest.SandboxInput(""))
				markettest.Check(t, c.SendSigned(w.Ctx, next.Request))
				admitted = answered(t, w, next.RequestID)
			}
			if job := w.Await(t, p.RequestID, provider.StateQuoted); job.Payment != nil {
				t.Errorf("payment %+v", job.Payment)
			}
			stop()

			w.Serve(t, one)
			w.Sold(t, c, f, mode)
			w.Moved(t, c.Party, markettest.RateMsats, markettest.RateMsats+markettest.FeeMsats)
		})
	}
}

// answered waits until a request was taken, or refused: false.
func answered(t *testing.T, w *markettest.World, id string) bool {
	t.Helper()
	for {
		change := w.Store.Changed()
		if _, err := w.Store.Job(w.Ctx, id); err == nil || w.Store.WasRefused(id) {
			return !w.Store.WasRefused(id)
		}
		select {
		case <-change:
		case <-w.Ctx.Done():
			t.Fatal("the request was not answered")
		}
	}
}
